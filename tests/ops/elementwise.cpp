#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "elementwise.hpp"
#include "op_case.hpp"

namespace gr = gradus;
using namespace gradus_test;

TEST_CASE("functions of elements are what they are defined to be") {
  truth t;
  functions_table(t);
}

TEST_CASE("an operand that is given away becomes the output, one that is still held does not") {
  workplace at;
  auto x = normal<float, gr::shape<100>>(at.ctx);
  const float first = x(0);
  const float* memory = x.data();
  const auto held = x * 2.0;
  CHECK(held.data() != memory);
  CHECK(x(0) == first);
  const auto given = gr::exp(std::move(x));
  CHECK(given.data() == memory);
  CHECK(given(0) == doctest::Approx(std::exp(first)));
}

TEST_CASE("a linear function saves nothing, so a recorded chain of them works in one piece of memory") {
  workplace at;
  gr::tape tape(at.ctx);
  const auto x = tape.variable(normal<float, gr::shape<1000>>(at.ctx));
  const auto before = at.stats.all().live;
  const auto y = -(x * 2.0 + 1.0) / 4.0;
  CHECK(at.stats.all().live == before + 4000);
  const auto z = gr::gelu(y) * 2.0;  // gelu keeps its input
  CHECK(at.stats.all().live == before + 8000);
  tape.clear();
}

TEST_CASE("what has its derivative from its output keeps that, and works in the memory of its operand") {
  workplace at;
  const auto positive = gr::exp(normal<float, gr::shape<1003>>(at.ctx));
  const auto check = [&](const auto& f, const auto& derivative) {
    gr::tape tape(at.ctx);
    const auto x = tape.variable(positive);
    const auto before = at.stats.all().live;
    const auto y = f(x + 1.0);  // the sum is nobody's
    CHECK(at.stats.all().live == before + positive.bytes);
    const auto [g] = gr::gradients(gr::sum(y), x);
    double worst = 0;
    for (std::size_t i = 0; i < g.size; ++i) {
      const double wanted = derivative(static_cast<double>(positive.values()[i] + 1));  // x + 1 as it was rounded
      worst = std::max(worst, std::abs(static_cast<double>(g.values()[i]) - wanted) / (1 + wanted));
    }
    CHECK(worst < 1e-6);
  };
  check([](auto v) { return gr::exp(std::move(v)); }, [](double v) { return std::exp(v); });
  check([](auto v) { return gr::sqrt(std::move(v)); }, [](double v) { return 0.5 / std::sqrt(v); });
  check([](auto v) { return gr::tanh(std::move(v)); }, [](double v) { return 1 - std::tanh(v) * std::tanh(v); });
  check([](auto v) { return gr::relu(std::move(v)); }, [](double) { return 1.0; });
}

TEST_CASE("integer tensors are computed with as integers, of any width") {
  workplace at;
  const auto a = gr::from_values<std::int32_t, gr::shape<4>>(at.ctx, {-7, 0, 3, 2000000000});
  const auto b = gr::from_values<std::uint8_t, gr::shape<4>>(at.ctx, {2, 200, 100, 1});
  const auto sum = a + b;
  static_assert(std::is_same_v<decltype(sum)::value_type, std::int32_t>);
  CHECK(sum(1) == 200);
  CHECK(sum(3) == 2000000001);
  CHECK((b * 3)(2) == static_cast<std::uint8_t>(300));
  CHECK((a / 7)(0) == -1);
  CHECK((2 - gr::slice<0, 0, 3>(a) * 3)(0) == 23);
  CHECK(gr::abs(a)(0) == 7);
  CHECK(gr::maximum(a, b)(2) == 100);
  CHECK(gr::relu(a)(0) == 0);
  const auto wide = gr::from_values<std::int64_t, gr::shape<1>>(at.ctx, {std::int64_t{1} << 40});
  CHECK((wide + wide)(0) == std::int64_t{1} << 41);
}

TEST_CASE("16-bit floats compute in float, and an output has the type that the operands promote to") {
  workplace at;
  const auto x = normal<float, gr::shape<3, 19>>(at.ctx);
  gr::tensor<gr::bf16, gr::shape<3, 19>> h(at.ctx);
  for (std::size_t i = 0; i < x.size; ++i) h.values()[i] = gr::bf16(x.values()[i]);
  const auto e = gr::exp(h);
  static_assert(std::is_same_v<decltype(e)::value_type, float>);
  for (std::size_t i = 0; i < x.size; ++i)
    CHECK(e.values()[i] == doctest::Approx(std::exp(static_cast<float>(h.values()[i]))).epsilon(1e-6));
  static_assert(std::is_same_v<decltype(x + h)::value_type, float>);
  const auto i = gr::arange<std::int32_t, 19>(at.ctx);
  static_assert(std::is_same_v<decltype(i * h)::value_type, gr::bf16>);
  // Gradients have the type of their operand, also where it was broadcast.
  const auto row = normal<float, gr::shape<19>>(at.ctx);
  const auto g = evaluate(
      at.ctx, [](auto u, auto v) { return u * v; }, x, h, row);
  static_assert(std::is_same_v<std::tuple_element_t<1, decltype(g.gradients)>::value_type, float>);
  double wanted = 0;
  for (std::size_t r = 0; r < 3; ++r)
    wanted += static_cast<double>(x(r, 4)) * static_cast<double>(static_cast<float>(h(r, 4)));
  CHECK(std::get<1>(g.gradients)(4) == doctest::Approx(wanted).epsilon(0.001));
}

TEST_CASE("NaN comes through minimum, maximum, relu and clamp, and negative zero has no sign in abs") {
  workplace at;
  const float nan_value = std::numeric_limits<float>::quiet_NaN();
  const auto x = gr::from_values<float, gr::shape<3>>(at.ctx, {nan_value, 1, -0.0f});
  const auto y = gr::from_values<float, gr::shape<3>>(at.ctx, {1, nan_value, 0});
  CHECK(std::isnan(gr::maximum(x, y)(0)));
  CHECK(std::isnan(gr::maximum(x, y)(1)));
  CHECK(std::isnan(gr::minimum(x, y)(0)));
  CHECK(std::isnan(gr::minimum(x, y)(1)));
  CHECK(std::isnan(gr::relu(x)(0)));
  CHECK(std::isnan(gr::clamp(x, 0, 1)(0)));
  CHECK(!std::signbit(gr::abs(x)(2)));
}

static_assert(gr::math::wrapping_multiply(std::uint16_t{65535}, std::uint16_t{65535}) == 1);
static_assert(gr::math::wrapping_multiply(std::int16_t{-32768}, std::int16_t{-1}) == -32768);
static_assert(!std::equality_comparable<gr::tensor<float, gr::shape<3>>>);

TEST_CASE("whole constants beside integers keep all their digits") {
  workplace at;
  constexpr std::int64_t large = (std::int64_t{1} << 53) + 1;
  const auto x = gr::full<std::int64_t, gr::shape<3>>(at.ctx, std::int64_t{2});
  CHECK((x + large)(0) == large + 2);
  CHECK((large - x)(1) == large - 2);
  CHECK((x - large)(2) == 2 - large);
  CHECK((x * large)(0) == 2 * large);
  CHECK((x - 3u)(0) == -1);
}

namespace {
// f's gradient at x = {-1, 4, -2, 9} where the gradient that arrives is `dy`.
template <class F>
std::vector<float> gradient_at(const F& f, float dy) {
  workplace at;
  using S = gr::shape<4>;
  const auto x = gr::from_values<float, S>(at.ctx, {-1, 4, -2, 9});
  return gr::to_host(std::get<0>(evaluate(
                                     at.ctx, [&](auto v) { return f(at.ctx, v); }, gr::full<float, S>(at.ctx, dy), x)
                                     .gradients));
}
template <class F>
void check_masked(const F& select_positive) {
  const auto root = [&](auto& ctx, auto v) { return gr::sqrt(select_positive(ctx, v)); };
  CHECK(gradient_at(root, 1) == std::vector<float>{0, 0.25f, 0, 0.5f / 3});
  constexpr float infinity = std::numeric_limits<float>::infinity();
  CHECK(gradient_at(select_positive, infinity) == std::vector<float>{0, infinity, 0, infinity});
  const auto g = gradient_at(select_positive, std::nanf(""));
  CHECK(g[0] == 0);
  CHECK(std::isnan(g[1]));
}
struct positive_part {
  static constexpr bool selects = true;
  template <class T>
  T operator()(T x) const {
    using gr::math::select;
    return select(x > T(0), x, T(0));
  }
};
}  // namespace

TEST_CASE("what was not selected has a gradient of 0, whatever arrives, and what was has all of it") {
  using S = gr::shape<4>;
  check_masked([](auto&, auto v) { return gr::relu(v); });
  check_masked([](auto&, auto v) { return gr::clamp(v, 0, 100); });
  check_masked([](auto& ctx, auto v) { return gr::maximum(v, gr::zeros<float, S>(ctx)); });
  check_masked([](auto& ctx, auto v) { return -gr::minimum(-v, gr::zeros<float, gr::shape<>>(ctx)); });
  check_masked([](auto& ctx, auto v) {
    const auto positive = gr::from_values<float, S>(ctx, {0, 1, 0, 1});
    return gr::where(positive, v, gr::zeros<float, S>(ctx));
  });
  check_masked([](auto& ctx, auto v) { return gr::where(gr::from_values<float, S>(ctx, {0, 1, 0, 1}), v, 0.0); });
  check_masked([](auto&, auto v) { return gr::map(positive_part{}, v); });
  CHECK(gradient_at([](auto&, auto v) { return gr::sqrt(gr::abs(v * 0.0)); }, 1) == std::vector<float>(4, 0.0f));
}

TEST_CASE("an infinite gradient times a derivative that was computed as 0 is NaN, for the loss scaler to see") {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  using S = gr::shape<4>;
  CHECK(std::isnan(gradient_at([](auto& ctx, auto v) { return v * gr::zeros<float, S>(ctx); }, infinity)[1]));
  CHECK(std::isnan(gradient_at([](auto&, auto v) { return gr::tanh(v * 100.0); }, infinity)[3]));
  CHECK(std::isnan(gradient_at([](auto&, auto v) { return gr::exp(v * -100.0); }, infinity)[3]));
}

TEST_CASE("a quotient's gradients are finite where the quotient is") {
  workplace at;
  using S = gr::shape<3>;
  const auto a = gr::from_values<float, S>(at.ctx, {0, 1e-30f, 3});
  const auto b = gr::from_values<float, S>(at.ctx, {1e-39f, 1e-25f, 2});
  const auto g = evaluate(
      at.ctx, [](auto u, auto v) { return u / v; }, gr::ones<float, S>(at.ctx), a, b);
  const auto& db = std::get<1>(g.gradients);
  CHECK(db(0) == 0);
  CHECK(db(1) == doctest::Approx(-1e20));
  CHECK(db(2) == -0.75f);
}

TEST_CASE("a product with a number keeps the sign of zero, as one with a tensor does") {
  workplace at;
  const auto x = gr::from_values<float, gr::shape<2>>(at.ctx, {-0.0f, 0.0f});
  const auto signs = [](const auto& y) { return std::pair(std::signbit(y(0)), std::signbit(y(1))); };
  CHECK(signs(x * 3.0) == std::pair(true, false));
  CHECK(signs(3 * x) == std::pair(true, false));
  CHECK(signs(x * -3.0) == std::pair(false, true));
  CHECK(signs(x - 0) == std::pair(true, false));
  CHECK(signs(x + 0.0) == std::pair(false, false));
  CHECK(signs(0 - x) == std::pair(false, false));
  CHECK((1.0 / (x * 3.0))(0) == -std::numeric_limits<float>::infinity());
}

TEST_CASE("integers wrap where a result does not fit") {
  workplace at;
  constexpr std::int32_t most = std::numeric_limits<std::int32_t>::max(),
                         least = std::numeric_limits<std::int32_t>::min();
  const auto x = gr::from_values<std::int32_t, gr::shape<3>>(at.ctx, {most, least, 5});
  using list = std::vector<std::int32_t>;
  CHECK(gr::to_host(x + x) == list{-2, 0, 10});
  CHECK(gr::to_host(x - gr::full<std::int32_t, gr::shape<>>(at.ctx, -1)) == list{least, least + 1, 6});
  CHECK(gr::to_host(x * x) == list{1, 0, 25});
  CHECK(gr::to_host(-x) == list{-most, least, -5});
  CHECK(gr::to_host(gr::abs(x)) == list{most, least, 5});
  CHECK(gr::to_host(x * 3 + 1) == list{most - 1, least + 1, 16});
  CHECK(gr::to_host(x / -1) == list{-most, least, -5});
  CHECK(gr::to_host(x / gr::full<std::int32_t, gr::shape<>>(at.ctx, -1)) == list{-most, least, -5});
  const auto wide = gr::full<std::int64_t, gr::shape<1>>(at.ctx, std::numeric_limits<std::int64_t>::max());
  CHECK((wide + wide)(0) == -2);
  CHECK((-(wide + 1))(0) == std::numeric_limits<std::int64_t>::min());
}

TEST_CASE("integers that are divided by zero are an error, and by a whole number of any size a quotient") {
  workplace at;
  threads two(at.ctx, 2);
  const auto x = gr::arange<std::int32_t, 100000>(at.ctx);
  const auto divisor = gr::arange<std::int32_t, 100000>(at.ctx) - 99999;
  CHECK_THROWS_WITH_AS(static_cast<void>(x / divisor), "a / b: the operands are integers, and an element of b is 0",
                       gr::error);
  CHECK_THROWS_WITH_AS(static_cast<void>(x / 0), "x / 0: an integer tensor takes a divisor other than 0", gr::error);
  CHECK((x / (divisor - 1))(99999) == -99999);
  CHECK((x / (std::int64_t{1} << 32))(99999) == 0);
  constexpr std::int64_t large = (std::int64_t{1} << 53) + 1;
  CHECK((gr::full<std::int64_t, gr::shape<1>>(at.ctx, large) / large)(0) == 1);
  CHECK(std::isinf((gr::cast<float>(x) / 0)(5)));
}

namespace {

// The same twice: with plain numbers, and with constants of x's type.
struct with_numbers {
  template <class T>
  auto operator()(T x) const {
    using gr::math::exp;
    using gr::math::pow;
    using gr::math::select;
    const auto y = 2 * x * x - x / 4 + 1.5f - (3 - x) + 1 / (x + 8) + pow(x + 4, 2) + pow(2, x);
    return select(x > 0 && !(2 <= x), y, 0.1 * exp(x)) + select(x != 1, 1, x) + select(0.5 < x, x, 0);
  }
};
struct with_constants {
  template <class T>
  auto operator()(T x) const {
    using gr::math::exp;
    using gr::math::pow;
    using gr::math::select;
    const T y = T(2) * x * x - x / T(4) + T(1.5f) - (T(3) - x) + T(1) / (x + T(8)) + pow(x + T(4), T(2)) + pow(T(2), x);
    return select(x > T(0) && !(T(2) <= x), y, T(0.1) * exp(x)) + select(x != T(1), T(1), x) +
           select(T(0.5) < x, x, T(0));
  }
};

template <class T>
void check_numbers() {
  gr::stream stream;
  gr::host_resource heap;
  gr::context ctx{stream, heap};
  gr::tape tape{ctx};
  using row = gr::shape<37>;  // a tail, too
  const auto at = gr::cast<T>(gr::arange<std::int32_t, 37>(ctx)) * 0.125 - 2;
  const auto a = tape.variable(at);
  const auto b = tape.variable(at);
  const auto ya = gr::map(with_numbers{}, a);
  const auto yb = gr::map(with_constants{}, b);
  CHECK(gr::to_host(ya.value()) == gr::to_host(yb.value()));
  gr::backward(gr::sum(ya) + gr::sum(yb));
  CHECK(gr::to_host(a.gradient()) == gr::to_host(b.gradient()));
  static_assert(std::is_same_v<gr::shape_of<decltype(ya)>, row>);
}

}  // namespace

TEST_CASE(
    "plain numbers mix with what a functor is called with, with the numbers and gradients of constants of its type") {
  check_numbers<float>();
  check_numbers<double>();
  check_numbers<gr::bf16>();
  gr::stream stream;
  gr::host_resource heap;
  gr::context ctx{stream, heap};
  const auto x = gr::from_values<float, gr::shape<4>>(ctx, {-2, -1, 0, 3});
  gr::tape tape{ctx};
  const auto v = tape.variable(x);
  const auto y = gr::map([](auto u) { return u * u + 1; }, v);
  CHECK(gr::to_host(y.value()) == std::vector<float>{5, 2, 1, 10});
  gr::backward(gr::sum(y));
  CHECK(gr::to_host(v.gradient()) == std::vector<float>{-4, -2, 0, 6});
  CHECK(gr::to_host(gr::map([](auto) { return 0.5; }, x)) == std::vector<float>(4, 0.5f));
  CHECK(gr::to_host(gr::map([](auto u) { return u * u + 1; }, gr::arange<std::int32_t, 3>(ctx))) ==
        std::vector<std::int32_t>{1, 2, 5});
}

TEST_CASE("where takes a number in the place of either side, and no gradient goes there") {
  gr::stream stream;
  gr::host_resource heap;
  gr::context ctx{stream, heap};
  gr::tape tape{ctx};
  const auto mask = gr::from_values<std::int32_t, gr::shape<4>>(ctx, {1, 0, 2, 0});
  const auto v = tape.variable(gr::from_values<float, gr::shape<2, 4>>(ctx, {1, 2, 3, 4, 5, 6, 7, 8}));
  const auto kept = gr::where(mask, v, -1e9);
  const auto dropped = gr::where(mask, 0, v);
  CHECK(gr::to_host(kept.value()) == std::vector<float>{1, -1e9f, 3, -1e9f, 5, -1e9f, 7, -1e9f});
  CHECK(gr::to_host(dropped.value()) == std::vector<float>{0, 2, 0, 4, 0, 6, 0, 8});
  gr::backward(gr::sum(kept) + gr::sum(dropped) * 3);
  CHECK(gr::to_host(v.gradient()) == std::vector<float>{1, 3, 1, 3, 1, 3, 1, 3});
  const auto whole = gr::where(mask, gr::arange<std::int32_t, 4>(ctx), -1);
  CHECK(gr::to_host(whole) == std::vector<std::int32_t>{0, -1, 2, -1});
  constexpr std::int64_t large = std::numeric_limits<std::int64_t>::max();
  const auto wide = gr::where(mask, gr::arange<std::int64_t, 4>(ctx), large);
  CHECK(gr::to_host(wide) == std::vector<std::int64_t>{0, large, 2, large});
}

TEST_CASE("operands that stand still are laid out anew where a run of rows is longer than those before") {
  workplace at;
  gr::set_thread_count(at.ctx.stream(), 2);  // the second begins within an outer axis, near its end
  constexpr gr::index_t outer = 59, rows = 67, columns = 16;
  const auto a = normal<float, gr::shape<outer, rows, columns>>(at.ctx);
  const auto b = normal<float, gr::shape<outer, 1, columns>>(at.ctx);
  const auto of_a = gr::to_host(a), of_b = gr::to_host(b);
  for (int round = 0; round < 20; ++round) {
    const auto c = normal<float, gr::shape<columns>>(at.ctx);  // what an earlier round laid out is wrong
    const auto y = gr::to_host(gr::map([](auto u, auto v, auto w) { return u + v - w; }, a, b, c));
    const auto of_c = gr::to_host(c);
    bool equal = true;
    for (gr::index_t i = 0; i < y.size(); ++i)
      equal = equal && y[i] == of_a[i] + of_b[i / (rows * columns) * columns + i % columns] - of_c[i % columns];
    CHECK(equal);
  }
}

namespace {
struct blend {
  template <class T>
  T operator()(T w, T a, T b, T c) const {
    return w * a + (T(1) - w) * b * c;
  }
};
}  // namespace

TEST_CASE("gradients of where and of a user's functor of four operands are right") {
  workplace at;
  const auto a = normal<double, gr::shape<3, 1, 5>>(at.ctx);
  const auto b = normal<double, gr::shape<4, 1>>(at.ctx);
  const auto c = normal<double, gr::shape<>>(at.ctx);
  const auto w = gr::sigmoid(normal<double, gr::shape<3, 4, 5>>(at.ctx));
  const auto condition = integers<std::int32_t, gr::shape<3, 4, 5>>(at.ctx, 0, 1);
  const auto check = [](const auto& f, const auto&... x) {
    const auto r = gr::gradcheck(f, x...);
    CHECK_MESSAGE(r.ok, r.message);
  };
  check([&](auto u, auto v) { return gr::where(condition, u, v); }, a, b);
  check([](auto m, auto u, auto v) { return gr::where(m, u, v); }, condition, a, b);
  check([](auto s, auto u, auto v, auto k) { return gr::map(blend{}, s, u, v, k); }, w, a, b, c);
}
