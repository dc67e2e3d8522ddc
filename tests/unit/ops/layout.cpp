// softmax, and the operations that move elements without computing.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <tuple>
#include <vector>

#include "../../support/operands.hpp"

namespace gr = gradus;
using namespace gradus_test;

namespace {

template <gr::index_t Rows, gr::index_t Columns>
void check_softmax(double scale) {
  workplace at;
  const auto x = normal<float, gr::shape<Rows, Columns>>(at.ctx, scale);
  CHECK(worst_error(numbers(gr::softmax(x)), reference::softmax(false, Columns, numbers(x)).y) < 1e-5);
  CHECK(worst_error(numbers(gr::log_softmax(x)), reference::softmax(true, Columns, numbers(x)).y) < 1e-5);
}

template <class T, gr::index_t... Order, class S>
void check_permute(S) {
  workplace at;
  const auto x = gr::cast<T>(integers<std::int32_t, S>(at.ctx, 0, 99));
  const auto from = reference::permuted({S::extents.begin(), S::extents.end()}, {Order...});
  CHECK(numbers(gr::permute<Order...>(x)) == reference::moved(from, numbers(x), {}).y);
}

}  // namespace

TEST_CASE("softmax and its logarithm agree with plain loops, with logits of any size") {
  check_softmax<1, 1>(1);
  check_softmax<3, 5>(2);
  check_softmax<3, 16>(100);
  check_softmax<70, 1003>(10);
}

TEST_CASE("softmax gives zero for minus infinity and works in the memory of an operand that is given away") {
  workplace at;
  auto x = gr::from_values<float, gr::shape<3>>(at.ctx, {0, -INFINITY, 0});
  const float* memory = x.data();
  const auto y = gr::softmax(std::move(x));
  CHECK(y.data() == memory);
  CHECK(y(0) == 0.5f);
  CHECK(y(1) == 0.0f);
}

TEST_CASE("softmax and its gradient have the same bits on one thread and on two") {
  workplace at;
  const auto x = normal<float, gr::shape<97, 301>>(at.ctx);
  const auto run = [&](int n) {
    threads t(at.ctx, n);
    return evaluate(
        at.ctx, [](auto v) { return gr::softmax(v); }, x, x);
  };
  const auto one = run(1), two = run(2);
  CHECK(same_bits(one.y, two.y));
  CHECK(same_bits(std::get<0>(one.gradients), std::get<0>(two.gradients)));
}

TEST_CASE_TEMPLATE("permute puts every element where it belongs, beyond a tile and with axes of one", T, float, double,
                   gr::bf16, std::int32_t, std::uint8_t) {
  check_permute<T, 1, 0>(gr::shape<67, 45>{});
  check_permute<T, 0, 2, 1, 3>(gr::shape<2, 35, 3, 5>{});
  check_permute<T, 3, 1, 0, 2>(gr::shape<3, 5, 7, 41>{});
  check_permute<T, 1, 2, 0>(gr::shape<1, 5, 7>{});
  check_permute<T, 0, 2, 1>(gr::shape<3, 37, 1>{});
  check_permute<T, 0>(gr::shape<9>{});
}

TEST_CASE("reshape shares its operand's elements, and so does its gradient") {
  workplace at;
  const auto x = normal<float, gr::shape<4, 6>>(at.ctx);
  const auto before = at.stats.all().live;
  const auto y = gr::reshape<3, 8>(x);
  CHECK(y.data() == x.data());
  CHECK(at.stats.all().live == before);
  gr::tape tape(at.ctx);
  const auto v = tape.variable(x);
  const auto r = gr::reshape<24>(v);
  auto dy = normal<float, gr::shape<24>>(at.ctx);
  const float* memory = dy.data();
  r.slot()->give(std::move(dy));
  tape.unwind();
  CHECK(v.gradient().data() == memory);
}

TEST_CASE("what split takes apart concat puts together, along every axis and for any element type") {
  workplace at;
  const auto x = integers<std::uint16_t, gr::shape<5, 6, 7>>(at.ctx, 0, 60000);
  const auto again = [&](const auto& parts, auto axis) {
    return std::apply([](const auto&... p) { return gr::concat<decltype(axis)::value>(p...); }, parts);
  };
  CHECK(same_bits(again(gr::split<0, 2, 3>(x), std::integral_constant<gr::index_t, 0>{}), x));
  CHECK(same_bits(again(gr::split<1, 1, 4, 1>(x), std::integral_constant<gr::index_t, 1>{}), x));
  CHECK(same_bits(again(gr::split<2, 7>(x), std::integral_constant<gr::index_t, 2>{}), x));
  CHECK(gr::slice<2, 3, 2>(x)(4, 1, 0) == x(4, 1, 3));
}

TEST_CASE("more operands than an operation's rule of what is saved has bits are put side by side") {
  workplace at;
  const auto x = gr::arange<float, 2>(at.ctx);
  gr::tape tape{at.ctx};
  auto v = tape.variable(x);
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    const auto y = gr::concat<0>((static_cast<void>(I), x)..., v);
    static_assert(decltype(y)::shape::size == 80);
    CHECK(y.value()(79) == 1);
    gr::backward(gr::sum(y * y));
  }(std::make_index_sequence<39>{});
  CHECK(gr::to_host(v.gradient()) == std::vector<float>{0, 2});
}

TEST_CASE("booleans are permuted, too") {
  workplace at;
  gr::tensor<bool, gr::shape<3, 40>> x(at.ctx);
  for (std::size_t i = 0; i < x.size; ++i) x.values()[i] = i % 3 == 0;
  const auto y = gr::permute<1, 0>(x);
  bool all = true;
  for (std::size_t r = 0; r < 3; ++r)
    for (std::size_t c = 0; c < 40; ++c) all = all && y(c, r) == x(r, c);
  CHECK(all);
}
