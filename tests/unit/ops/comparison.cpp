#include <doctest/doctest.h>

#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "../../support/operands.hpp"

namespace gr = gradus;
using namespace gradus_test;

namespace {

using list = std::vector<bool>;

// Comparisons of [3, 1, 19] and [2, 1], whose elements are often equal, and one NaN, with plain loops.
template <class T>
void check_comparisons() {
  workplace at;
  auto a = integers<T, gr::shape<3, 1, 19>>(at.ctx, 0, 3);
  const auto b = integers<T, gr::shape<2, 1>>(at.ctx, 0, 3);
  if constexpr (gr::is_floating<T>) a(1, 0, 4) = T(std::numeric_limits<float>::quiet_NaN());
  const auto check = [&](const auto& y, const auto& y_of_number, const auto& y_of_left, const auto& f) {
    static_assert(std::is_same_v<gr::shape_of<decltype(y)>, gr::shape<3, 2, 19>>);
    static_assert(std::is_same_v<gr::value_of_t<decltype(y)>, bool>);
    int wrong = 0;
    for (gr::index_t i = 0; i < 3; ++i)
      for (gr::index_t k = 0; k < 19; ++k) {
        const auto u = static_cast<double>(static_cast<gr::compute_type<T>>(a(i, 0, k)));
        for (gr::index_t j = 0; j < 2; ++j)
          wrong += y(i, j, k) != f(u, static_cast<double>(static_cast<gr::compute_type<T>>(b(j, 0))));
        wrong += y_of_number(i, 0, k) != f(u, 2.0);
        wrong += y_of_left(i, 0, k) != f(2.0, u);
      }
    CHECK(wrong == 0);
  };
  check(a < b, a < 2, 2 < a, [](double u, double v) { return u < v; });
  check(a > b, a > 2, 2 > a, [](double u, double v) { return u > v; });
  check(a <= b, a <= 2, 2 <= a, [](double u, double v) { return u <= v; });
  check(a >= b, a >= 2, 2 >= a, [](double u, double v) { return u >= v; });
  check(a == b, a == 2, 2 == a, [](double u, double v) { return u == v; });
  check(a != b, a != 2, 2 != a, [](double u, double v) { return u != v; });
  const auto two = gr::full<T, gr::shape<>>(at.ctx, T(2));
  check(gr::logical_and(a, b), gr::logical_and(a, two), gr::logical_not(a == 0),
        [](double u, double v) { return u != 0 && v != 0; });
  check(gr::logical_or(a, b), gr::logical_or(a, two), gr::logical_or(two, a),
        [](double u, double v) { return u != 0 || v != 0; });
}

}  // namespace

static_assert(!std::equality_comparable<gr::tensor<float, gr::shape<3>>>);

TEST_CASE("comparisons and logical functions of tensors and numbers are those of their elements, NaN among them") {
  check_comparisons<float>();
  check_comparisons<double>();
  check_comparisons<gr::bf16>();
  check_comparisons<std::int32_t>();
  check_comparisons<std::int64_t>();
}

TEST_CASE("a number is compared in the elements' type: rounded beside 16-bit ones, with all digits beside integers") {
  workplace at;
  CHECK(gr::to_host(gr::full<gr::bf16, gr::shape<2>>(at.ctx, gr::bf16(0.1f)) == 0.1) == list{true, true});
  CHECK(gr::to_host(gr::full<float, gr::shape<2>>(at.ctx, 0.1f) == 0.1) == list{true, true});
  const auto small = gr::from_values<std::uint8_t, gr::shape<2>>(at.ctx, {255, 44});
  CHECK(gr::to_host(small < 300) == list{true, true});
  CHECK(gr::to_host(small == 300) == list{false, false});
  const auto x = gr::from_values<std::int32_t, gr::shape<2>>(at.ctx, {0, -1});
  CHECK(gr::to_host(x < (std::int64_t{1} << 32)) == list{true, true});
  constexpr std::int64_t large = (std::int64_t{1} << 53) + 1;
  CHECK(gr::to_host(gr::full<std::int64_t, gr::shape<1>>(at.ctx, large) > large - 1) == list{true});
  // Operands of two types, in the type that they promote to.
  CHECK(gr::to_host(x < gr::full<float, gr::shape<>>(at.ctx, -0.5f)) == list{false, true});
  CHECK(gr::to_host((x == 0) == true) == list{true, false});
}

TEST_CASE("where takes a number on both sides") {
  workplace at;
  const auto x = gr::from_values<float, gr::shape<3>>(at.ctx, {-1, 0.5f, 2});
  CHECK(gr::to_host(gr::where(x > 0, 1, -1)) == std::vector<std::int64_t>{-1, 1, 1});
  CHECK(gr::to_host(gr::where(x, 0.25, 3)) == std::vector<float>{0.25f, 0.25f, 0.25f});
  constexpr std::int64_t large = std::numeric_limits<std::int64_t>::max();
  CHECK(gr::to_host(gr::where(x > 1, large, 0)) == std::vector<std::int64_t>{0, 0, large});
}

TEST_CASE("comparisons of recorded values are recorded conditions without a gradient, within regions, too") {
  workplace at;
  gr::tape tape{at.ctx};
  const auto v = tape.variable(gr::from_values<float, gr::shape<4>>(at.ctx, {-2, -1, 1, 2}));
  const auto f = [](auto u) { return gr::sum(gr::where(gr::logical_and(u > -1.5, u != 2), u * u, u)); };
  gr::backward(f(v) + gr::checkpoint([&](auto u) { return f(u); }, v));
  CHECK(gr::to_host(v.gradient()) == std::vector<float>{2, -4, 4, 2});
}

TEST_CASE("+= and the others compute in the memory of an operand that has no other reader") {
  workplace at;
  using S = gr::shape<3>;
  auto x = gr::from_values<float, S>(at.ctx, {1, 2, 3});
  const auto y = gr::from_values<float, S>(at.ctx, {2, 4, 8});
  const float* memory = std::as_const(x).data();
  x += y;
  x -= 1;
  x *= y;
  x /= 2.0;
  CHECK(std::as_const(x).data() == memory);
  CHECK(gr::to_host(x) == std::vector<float>{2, 10, 40});
  (x += x) -= gr::ones<float, gr::shape<>>(at.ctx);
  CHECK(gr::to_host(x) == std::vector<float>{3, 19, 79});
  const auto held = x;
  x *= 2;
  CHECK(gr::to_host(held) == std::vector<float>{3, 19, 79});
  CHECK(gr::to_host(x) == std::vector<float>{6, 38, 158});

  gr::tape tape{at.ctx};
  const auto v = tape.variable(y);
  auto sum = v * 3;
  sum += v;
  sum *= y;
  gr::backward(gr::sum(sum));
  CHECK(gr::to_host(v.gradient()) == std::vector<float>{8, 16, 32});
}
