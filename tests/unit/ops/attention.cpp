#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <type_traits>
#include <vector>

#include "../../support/operands.hpp"

namespace gr = gradus;
using namespace gradus_test;

namespace {

template <gr::index_t Heads>
const auto flash = [](auto x) { return gr::causal_attention<Heads>(x); };

void compare(const outcome& found, const outcome& wanted) {
  CHECK(worst_error(found.y, wanted.y) < 1e-4);
  CHECK(worst_error(found.gradients[0], wanted.gradients[0]) < 1e-3);
}

template <gr::index_t B, gr::index_t T, gr::index_t Heads, gr::index_t Depth>
void check(double scale) {
  CAPTURE(T);
  CAPTURE(Depth);
  workplace at;
  constexpr gr::index_t width = Heads * Depth;
  const auto x = normal<float, gr::shape<B, T, 3 * width>>(at.ctx, scale);
  const auto dy = normal<float, gr::shape<B, T, width>>(at.ctx);
  const auto wanted = reference::causal_attention(B, T, Heads, Depth, numbers(x), numbers(dy));
  const auto f = evaluate(at.ctx, flash<Heads>, dy, x);
  compare(numbers(f), wanted);
  CHECK(same_bits(gr::causal_attention<Heads>(x), f.y));
}

}  // namespace

TEST_CASE("attention, flash and plain, is what it is defined to be, in any number of heads, depth and length") {
  check<1, 1, 1, 1>(1);
  check<2, 13, 3, 5>(1);
  check<1, 64, 2, 64>(1);
  check<2, 65, 3, 13>(1);
  check<1, 200, 1, 33>(1);
  check<1, 129, 2, 16>(3);
  check<1, 40, 1, 300>(0.5);
  check<3, 31, 2, 1>(1);
}

TEST_CASE("attention does not depend on the number of threads, whether dq is made with dk and dv or apart") {
  workplace at;
  const auto x = normal<float, gr::shape<2, 150, 3 * 40>>(at.ctx);
  const auto dy = normal<float, gr::shape<2, 150, 40>>(at.ctx);
  const auto q = normal<double, gr::shape<1, 2, 150, 40>>(at.ctx);
  const auto kv = normal<double, gr::shape<1, 2, 170, 40>>(at.ctx);
  const auto run = [&](int n, auto f, const auto& g, const auto&... xs) {
    const threads some(at.ctx, n);
    return evaluate(at.ctx, f, g, xs...);
  };
  const auto cross = [](auto a, auto b, auto c) { return gr::attention(a, b, c); };
  const auto one = run(1, flash<2>, dy, x);
  const auto one_of_three = run(1, cross, q, q, kv, kv);
  for (const int n : {2, 3, 7, 16, 96}) {
    CAPTURE(n);
    const auto many = run(n, flash<2>, dy, x);
    CHECK(same_bits(one.y, many.y));
    CHECK(same_bits(std::get<0>(one.gradients), std::get<0>(many.gradients)));
    const auto three = run(n, cross, q, q, kv, kv);
    CHECK(same_bits(one_of_three.y, three.y));
    CHECK(same_bits(std::get<0>(one_of_three.gradients), std::get<0>(three.gradients)));
    CHECK(same_bits(std::get<1>(one_of_three.gradients), std::get<1>(three.gradients)));
    CHECK(same_bits(std::get<2>(one_of_three.gradients), std::get<2>(three.gradients)));
  }
}

TEST_CASE("attention adds to a gradient that is there already") {
  workplace at;
  const auto x = normal<double, gr::shape<1, 70, 3 * 6>>(at.ctx);
  const auto dy = normal<double, gr::shape<1, 70, 6>>(at.ctx);
  const auto once = evaluate(at.ctx, flash<2>, dy, x);
  const auto twice = evaluate(
      at.ctx, [](auto v) { return gr::causal_attention<2>(v) + gr::causal_attention<2>(v); }, dy, x);
  std::vector<double> wanted;
  for (const double v : std::get<0>(once.gradients).values()) wanted.push_back(2 * v);
  CHECK(worst_error(std::get<0>(twice.gradients).values(), wanted) < 1e-12);
}

TEST_CASE_TEMPLATE("attention adds to gradients of keys and values that are there already", T, float, gr::bf16) {
  workplace at;
  using gr::shape;
  const auto q = normal<T, shape<2, 3, 70, 17>>(at.ctx), other = normal<T, shape<2, 3, 70, 17>>(at.ctx);
  const auto k = normal<T, shape<2, 3, 70, 17>>(at.ctx), v = normal<T, shape<2, 3, 70, 17>>(at.ctx);
  const auto dy = normal<T, shape<2, 3, 70, 17>>(at.ctx);
  const auto check = [&](const auto& f) {
    const auto first = evaluate(at.ctx, f, dy, q, k, v), second = evaluate(at.ctx, f, dy, other, k, v);
    const auto both = evaluate(
        at.ctx, [&](auto a, auto b, auto c, auto d) { return f(a, c, d) + f(b, c, d); }, dy, q, other, k, v);
    const auto compare = [&](const auto& found, const auto& a, const auto& b) {
      CHECK(error_in_norm(found, gr::cast<double>(a) + gr::cast<double>(b)) < (sizeof(T) == 2 ? 0x1p-7 : 1e-6));
    };
    compare(std::get<2>(both.gradients), std::get<1>(first.gradients), std::get<1>(second.gradients));
    compare(std::get<3>(both.gradients), std::get<2>(first.gradients), std::get<2>(second.gradients));
  };
  for (const int count : {1, 4}) {
    const threads n(at.ctx, count);
    check([](auto a, auto b, auto c) { return gr::attention(a, b, c); });
    check([](auto a, auto b, auto c) { return gr::attention<true>(a, b, c); });
    check([](auto a, auto b, auto c) { return gr::attention(a, b, c, {.window = 9}); });
  }
}

TEST_CASE("what comes later changes no bit of what came before") {
  workplace at;
  constexpr gr::index_t length = 100;
  constexpr gr::index_t width = 20;
  const auto x = normal<float, gr::shape<1, length, 3 * width>>(at.ctx);
  const auto y = gr::causal_attention<2>(x);
  for (const gr::index_t changed : {1u, 31u, 50u, 99u}) {
    auto other = gr::clone(x);
    for (gr::index_t i = changed * 3 * width; i < other.size; ++i) other.data()[i] = -3 * other.data()[i] + 1;
    const auto z = gr::causal_attention<2>(other);
    CHECK(std::equal(y.data(), y.data() + changed * width, z.data()));
  }
}

TEST_CASE("attention never allocates anything of the size of the scores") {
  workplace at;
  using X = gr::tensor<float, gr::shape<1, 512, 3 * 8>>;
  gr::tape tape{at.ctx};
  const auto before = at.stats.all().live;
  at.stats.reset_peak();
  auto v = tape.variable(normal<float, X::shape>(at.ctx));
  auto y = gr::causal_attention<1>(v);
  y.slot()->give(normal<float, gr::shape<1, 512, 8>>(at.ctx));
  tape.unwind();
  CHECK(at.stats.all().peak - before < 4 * X::bytes);
}

TEST_CASE("scores far apart neither overflow nor lose the largest") {
  workplace at;
  const auto x = normal<float, gr::shape<1, 50, 3 * 8>>(at.ctx, 100);
  const auto dy = normal<float, gr::shape<1, 50, 8>>(at.ctx);
  const auto f = evaluate(at.ctx, flash<1>, dy, x);
  for (const float v : f.y.values()) CHECK(std::isfinite(v));
  for (const float v : std::get<0>(f.gradients).values()) CHECK(std::isfinite(v));
}

TEST_CASE("attention(q, k, v) is the packed one, and one tensor may serve as all three") {
  workplace at;
  constexpr gr::index_t T = 37;
  constexpr gr::index_t D = 9;
  const auto x = normal<double, gr::shape<2, T, 3 * 2 * D>>(at.ctx);
  const auto dy = normal<double, gr::shape<2, T, 2 * D>>(at.ctx);
  const auto parted = [](auto v) {
    const auto head = [&](auto first) {
      return gr::permute<0, 2, 1, 3>(gr::reshape<2, T, 2, D>(gr::slice<2, first * 2 * D, 2 * D>(v)));
    };
    auto y = gr::attention<true>(head(std::integral_constant<gr::index_t, 0>{}),
                                 head(std::integral_constant<gr::index_t, 1>{}),
                                 head(std::integral_constant<gr::index_t, 2>{}));
    return gr::reshape<2, T, 2 * D>(gr::permute<0, 2, 1, 3>(y));
  };
  const auto packed = evaluate(at.ctx, flash<2>, dy, x);
  const auto apart = evaluate(at.ctx, parted, dy, x);
  CHECK(same_bits(packed.y, apart.y));
  CHECK(worst_error(std::get<0>(packed.gradients).values(), std::get<0>(apart.gradients).values()) < 1e-12);

  const auto s = normal<double, gr::shape<1, 2, 70, 5>>(at.ctx);
  const auto ds = normal<double, gr::shape<1, 2, 70, 5>>(at.ctx);
  const auto alone = evaluate(
      at.ctx, [](auto v) { return gr::attention(v, v, v); }, ds, s);
  const auto three = evaluate(
      at.ctx, [](auto q, auto k, auto v) { return gr::attention(q, k, v); }, ds, s, s, s);
  const auto sum = [](const auto& a, const auto& b) { return numbers(a + b); };
  const auto& [dq, dk, dv] = three.gradients;
  CHECK(worst_error(numbers(std::get<0>(alone.gradients)), sum(dq + dk, dv)) < 1e-12);
  const auto of_two = [&](const auto& f) { return numbers(std::get<0>(evaluate(at.ctx, f, ds, s, s).gradients)); };
  CHECK(worst_error(of_two([](auto u, auto v) { return gr::attention(u, u, v); }), sum(dq, dk)) < 1e-12);
  CHECK(worst_error(of_two([](auto u, auto k) { return gr::attention(u, k, u); }), sum(dq, dv)) < 1e-12);
  CHECK(worst_error(of_two([](auto u, auto q) { return gr::attention(q, u, u); }), sum(dk, dv)) < 1e-12);
}

TEST_CASE("one tensor that serves as queries, keys and values has the same gradient on any number of threads") {
  using S = gr::shape<1, 1, 300, 16>;
  workplace at;
  const auto v = normal<float, S>(at.ctx), dy = normal<float, S>(at.ctx);
  const auto gradient = [&](int n, const auto& f) {
    const threads of(at.ctx, n);
    gr::tape tape(at.ctx);
    const auto x = tape.variable(v);
    return std::get<0>(gr::gradients(gr::sum(f(x) * dy), x));
  };
  const auto check = [&](const auto& f) {
    const auto alone = gradient(1, f);
    for (int i = 0; i < 5; ++i) CHECK(same_bits(gradient(4, f), alone));
  };
  check([](const auto& x) { return gr::attention(x, x, x); });
  const auto k = normal<float, S>(at.ctx);
  check([&](const auto& x) { return gr::attention<true>(x, k, x); });
  check([&](const auto& x) { return gr::attention(x, x, k); });
}
