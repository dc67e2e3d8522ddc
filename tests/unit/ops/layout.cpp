// softmax, and the operations that move elements without computing.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
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

// Sorts rows of x by std::stable_sort.
std::vector<std::int32_t> stable_places(const values& x, std::size_t columns, std::size_t count, bool descending) {
  std::vector<std::int32_t> all;
  for (std::size_t first = 0; first < x.size(); first += columns) {
    std::vector<std::int32_t> row(columns);
    std::iota(row.begin(), row.end(), 0);
    std::stable_sort(row.begin(), row.end(), [&](std::int32_t a, std::int32_t b) {
      const double u = x[first + static_cast<std::size_t>(a)], v = x[first + static_cast<std::size_t>(b)];
      return descending ? u > v : u < v;
    });
    all.insert(all.end(), row.begin(), row.begin() + static_cast<std::ptrdiff_t>(count));
  }
  return all;
}
template <class T, class S, gr::index_t Count>
void check_sort(int low, int high) {
  workplace at;
  constexpr gr::index_t columns = S::extent(-1);
  const auto x = gr::cast<T>(integers<std::int32_t, S>(at.ctx, low, high));  // with repeats
  const auto order = stable_places(numbers(x), columns, columns, false);
  const auto down = stable_places(numbers(x), columns, Count, true);
  CHECK(gr::to_host(gr::argsort(x)) == order);
  CHECK(gr::to_host(gr::argsort<gr::sort_order::descending>(x)) == stable_places(numbers(x), columns, columns, true));
  const auto [largest, where] = gr::topk<Count>(x);
  CHECK(gr::to_host(where) == down);
  const auto taken = [&](const std::vector<std::int32_t>& places, std::size_t count) {
    values y;
    for (std::size_t i = 0; i < places.size(); ++i)
      y.push_back(numbers(x)[i / count * columns + static_cast<std::size_t>(places[i])]);
    return y;
  };
  CHECK(numbers(gr::sort(x)) == taken(order, columns));
  CHECK(numbers(largest) == taken(down, Count));
}

// Every operation that moves or selects elements, and its gradient.
template <class D>
constexpr void move_everything(gr::context<D>& ctx) {
  gr::tape<D> tape(ctx);
  const auto x = tape.variable(gr::zeros<float, gr::shape<3, 4, 5>>(ctx));
  const auto h = tape.variable(gr::zeros<gr::bf16, gr::shape<3, 4>>(ctx));
  const auto each = gr::zeros<std::int32_t, gr::shape<3, 4, 2>>(ctx);
  const auto rows = gr::zeros<std::int32_t, gr::shape<5>>(ctx);
  const auto places = gr::zeros<std::int32_t, gr::shape<3, 7>>(ctx);
  const auto a = gr::pad<1, 1, 2>(gr::roll<2>(gr::stack<0>(x, x), 3));
  const auto b = gr::einsum<"aijk,lik->jl">(gr::expand<7, 3, 4, 5>(x), gr::slice<1, 3>(x, 1));
  const auto c = gr::gather<2>(x, each) + gr::topk<2>(gr::sort(x)).first;
  const auto d = gr::scatter_add<2>(gr::tril(x), each, c) + gr::index_select<2>(x, rows);
  const auto e = gr::reshape<-1, 3>(gr::scatter_add<1>(h, places, gr::gather<1>(h, places)));
  gr::backward(gr::sum(a) + gr::sum(b) + gr::sum(d) + gr::sum(e) + gr::sum(gr::one_hot<3>(each)));
}
constexpr std::size_t bytes_to_move_everything() {
  gr::accounting memory;
  gr::meta_stream stream;
  gr::context<gr::meta> ctx{stream, memory};
  move_everything(ctx);
  return memory.peak_bytes();
}

}  // namespace

TEST_CASE("the memory of all that moves elements is known in a constant expression") {
  constexpr std::size_t bytes = bytes_to_move_everything();
  workplace at;
  move_everything(at.ctx);
  CHECK(at.stats.all().peak == bytes);
}

TEST_CASE("sort, argsort and topk are stable: of equal elements the first comes first") {
  check_sort<float, gr::shape<1>, 1>(-3, 3);
  check_sort<float, gr::shape<5, 37>, 4>(-9, 9);
  check_sort<double, gr::shape<2, 3, 1000>, 999>(-99, 99);
  check_sort<gr::bf16, gr::shape<70, 11>, 11>(-3, 3);
  check_sort<std::int64_t, gr::shape<3, 19>, 2>(-3, 3);
  check_sort<std::uint8_t, gr::shape<3, 19>, 2>(0, 200);
}

TEST_CASE("infinities are sorted, and NaN is refused") {
  workplace at;
  auto x = gr::from_values<float, gr::shape<2, 3>>(at.ctx, {INFINITY, -INFINITY, 0, 0, -0.0f, 1});
  CHECK(gr::to_host(gr::argsort(x)) == std::vector<std::int32_t>{1, 2, 0, 0, 1, 2});
  x(1, 1) = NAN;
  const char* message = "sort, argsort, topk: element 4 is NaN, which has no place in an order";
  CHECK_THROWS_WITH_AS(gr::sort(x), message, gr::error);
  CHECK_THROWS_AS(gr::topk<2>(x), gr::error);
}

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

TEST_CASE("stack, pad, roll, run-time slices and expand are slices and concatenations, for any element type") {
  workplace at;
  const auto x = integers<std::uint16_t, gr::shape<5, 6, 7>>(at.ctx, 0, 60000);
  const auto y = integers<std::uint16_t, gr::shape<5, 6, 7>>(at.ctx, 0, 60000);
  const auto with_one = [](const auto& v) { return gr::reshape<5, 1, 6, 7>(v); };
  CHECK(same_bits(gr::stack<1>(x, y, x), gr::concat<1>(with_one(x), with_one(y), with_one(x))));
  CHECK(same_bits(gr::reshape<5, 6, 7>(gr::slice<3, 1, 1>(gr::stack<3>(x, y))), y));
  const auto nines = gr::full<std::uint16_t, gr::shape<5, 2, 7>>(at.ctx, 9);
  CHECK(same_bits(gr::pad<1, 2, 2>(x, 9), gr::concat<1>(nines, x, nines)));
  CHECK(same_bits(gr::pad<2, 0, 0>(x), x));
  CHECK(same_bits(gr::roll<2>(x, 2), gr::concat<2>(gr::slice<2, 5, 2>(x), gr::slice<2, 0, 5>(x))));
  CHECK(same_bits(gr::roll<2>(x, -12), gr::roll<2>(x, 2)));
  CHECK(same_bits(gr::roll<0>(x, 10), x));
  CHECK(same_bits(gr::slice<1, 2>(x, 4), gr::slice<1, 4, 2>(x)));
  CHECK(same_bits(gr::expand<4, 5, 6, 7>(x), gr::stack<0>(x, x, x, x)));
  const auto column = gr::slice<2, 3, 1>(x);
  CHECK(same_bits(gr::expand<5, 6, 2>(column), gr::concat<2>(column, column)));
  static_assert(std::is_same_v<gr::shape_of<decltype(gr::reshape<-1, 14>(x))>, gr::shape<15, 14>>);
  static_assert(std::is_same_v<gr::shape_of<decltype(gr::expand<5, 6, 7>(x))>, gr::shape<5, 6, 7>>);
}

TEST_CASE("tril and triu keep what is on a diagonal and below or above it") {
  workplace at;
  const auto check = [&]<std::ptrdiff_t Diagonal>(std::integral_constant<std::ptrdiff_t, Diagonal>) {
    const auto x = normal<float, gr::shape<2, 5, 7>>(at.ctx);
    const auto low = gr::tril<Diagonal>(x), high = gr::triu<Diagonal>(x);
    bool right = true;
    for (std::size_t m = 0; m < 2; ++m)
      for (std::size_t r = 0; r < 5; ++r)
        for (std::size_t c = 0; c < 7; ++c) {
          const auto distance = static_cast<std::ptrdiff_t>(c) - static_cast<std::ptrdiff_t>(r);
          right = right && low(m, r, c) == (distance <= Diagonal ? x(m, r, c) : 0) &&
                  high(m, r, c) == (distance >= Diagonal ? x(m, r, c) : 0);
        }
    CHECK(right);
  };
  check(std::integral_constant<std::ptrdiff_t, 0>{});
  check(std::integral_constant<std::ptrdiff_t, 2>{});
  check(std::integral_constant<std::ptrdiff_t, -3>{});
  check(std::integral_constant<std::ptrdiff_t, -9>{});
  check(std::integral_constant<std::ptrdiff_t, 9>{});
  const auto ones = gr::tril(gr::ones<bool, gr::shape<2, 2>>(at.ctx));
  CHECK(!ones(0, 1));
}

TEST_CASE("a run-time slice outside of its axis is refused") {
  workplace at;
  const auto x = gr::arange<float, 5>(at.ctx);
  const char* message = "slice<0, 3>(x, first): first is 3; it must be in 0 .. 2, since the axis has 5 entries";
  CHECK_THROWS_WITH_AS((gr::slice<0, 3>(x, 3)), message, gr::error);
  CHECK_THROWS_AS((gr::slice<0, 3>(x, static_cast<gr::index_t>(-1))), gr::error);
}
