#include <doctest/doctest.h>

#include <gradus/core/dual.hpp>
#include <gradus/cpu/simd_log1p.hpp>
#include <gradus/cpu/simd_math.hpp>
#include <gradus/cpu/simd_rounding.hpp>
#include <gradus/cpu/simd_trigonometry.hpp>
#include <gradus/ops/elementwise/functions.hpp>

#include <cmath>
#include <initializer_list>
#include <limits>
#include <utility>

namespace gr = gradus;

namespace {

constexpr float inf = std::numeric_limits<float>::infinity();
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

struct derivatives {
  float a, b;
};
template <class V, class F>
gr::dual<V, 2> at(const F& f, float a, float b) {
  return f(gr::dual<V, 2>(V(a), 0), gr::dual<V, 2>(V(b), 1));
}
// As scalars and as packs, which must agree in every lane.
template <class F>
derivatives of(const F& f, float a, float b) {
  const auto scalar = at<float>(f, a, b);
  const auto packs = at<gr::pack<float>>(f, a, b);
  for (int k = 0; k < 2; ++k) {
    float lanes[gr::lanes<float>];
    packs.partial[k].store(lanes);
    for (const float lane : lanes) {
      const bool same = lane == scalar.partial[k] || (std::isnan(lane) && std::isnan(scalar.partial[k]));
      if (!same) CHECK(lane == doctest::Approx(scalar.partial[k]));
    }
  }
  return {scalar.partial[0], scalar.partial[1]};
}

}  // namespace

TEST_CASE("an infinite or undefined slope in one operand leaves the derivative in another alone") {
  const auto root_of_a = of([](auto a, auto b) { return sqrt(a) + b; }, 0, 1);
  CHECK(root_of_a.a == inf);
  CHECK(root_of_a.b == 1);
  CHECK(of([](auto a, auto b) { return log(a) * b; }, 0, 0).b == -inf);
  CHECK(of([](auto a, auto b) { return exp(a) + b; }, 1000, 1).b == 1);
  CHECK(of([](auto a, auto b) { return tanh(a) + b; }, not_a_number, 1).b == 1);
  CHECK(of([](auto a, auto b) { return a / b; }, 1, 0).a == inf);
  CHECK(of([](auto a, auto b) { return a * a + b; }, inf, 1).b == 1);
}

TEST_CASE("constants bring no undefined derivative in, however large the value they meet") {
  const auto scaled = of([](auto a, auto b) { return a * decltype(a)(3) + b; }, inf, 1);
  CHECK(scaled.a == 3);
  CHECK(scaled.b == 1);
  CHECK(of([](auto a, auto b) { return a / decltype(a)(4) + b; }, inf, 1).a == 0.25f);
}

TEST_CASE("powers have finite derivatives where they have them at all") {
  const auto power = [](auto a, auto b) { return pow(a, b); };
  CHECK(of(power, 0, 0.5f).a == inf);
  CHECK(of(power, 0, 0.5f).b == 0);
  CHECK(of(power, 0, 0).a == 0);
  CHECK(of(power, 0, 0).b == 0);
  CHECK(of(power, -2, 2).a == -4);
  CHECK(of([](auto a, auto b) { return pow(a, decltype(a)(2)) + b; }, 1e20f, 1).a == doctest::Approx(2e20f));
  CHECK(of([](auto a, auto b) { return pow(decltype(a)(-2), b) + a; }, 1, 2).a == 1);
}

TEST_CASE("derivatives of sigmoid, silu and the gelus have their digits in both tails, and their limits at infinity") {
  namespace f = gr::functor;
  const auto slope = [](auto functor, float x) { return of([=](auto a, auto) { return functor(a); }, x, 0).a; };
  for (const float sign : {-1.0f, 1.0f}) {
    const double e = std::exp(-30.0);
    CHECK(slope(f::sigmoid{}, sign * 30) == doctest::Approx(e / (1 + e) / (1 + e)));
  }
  CHECK(slope(f::silu{}, -30) == doctest::Approx(-29 * std::exp(-30.0)));
  const double pi = 3.14159265358979323846;
  CHECK(slope(f::gelu_erf{}, -6) ==
        doctest::Approx(0.5 * std::erfc(6 / std::sqrt(2.0)) - 6 * std::exp(-18.0) / std::sqrt(2 * pi)));
  const auto check_limits = [&](auto functor, float at_plus_infinity) {
    CHECK(slope(functor, inf) == at_plus_infinity);
    CHECK(slope(functor, -inf) == 0);
    CHECK(slope(functor, 1e30f) == at_plus_infinity);
    CHECK(slope(functor, -1e30f) == 0);
    CHECK(std::isnan(slope(functor, not_a_number)));
  };
  check_limits(f::sigmoid{}, 0);
  check_limits(f::silu{}, 1);
  check_limits(f::gelu{}, 1);
  check_limits(f::gelu_erf{}, 1);
}

TEST_CASE("derivatives of the newer functions are right at zeros, at large arguments and at infinity") {
  namespace f = gr::functor;
  const auto slope = [](auto functor, float x) { return of([=](auto a, auto) { return functor(a); }, x, 0).a; };
  CHECK(slope(f::sin{}, 0) == 1);
  CHECK(slope(f::cos{}, 1e5f) == doctest::Approx(-std::sin(1e5)).epsilon(1e-6));
  CHECK(slope(f::log1p{}, -1) == inf);
  CHECK(slope(f::log1p{}, 1e-10f) == 1);
  CHECK(slope(f::expm1{}, -30) == doctest::Approx(std::exp(-30.0)));
  CHECK(slope(f::expm1{}, -inf) == 0);
  CHECK(slope(f::softplus{}, -30) == doctest::Approx(std::exp(-30.0)));
  CHECK(slope(f::softplus{}, inf) == 1);
  CHECK(slope(f::softplus{}, -inf) == 0);
  for (const float x : {0.0f, 0.5f, -3.0f, inf}) {
    CHECK(slope(f::floor{}, x) == 0);
    CHECK(slope(f::ceil{}, x) == 0);
    CHECK(slope(f::round{}, x) == 0);
    CHECK(slope(f::sign{}, x) == 0);
  }
  const auto angle = of(f::atan2{}, 1e30f, -2e30f);  // the squares overflow
  CHECK(angle.a == doctest::Approx(-4e-31));
  CHECK(angle.b == doctest::Approx(-2e-31));
  CHECK(of(f::atan2{}, 0, 4).a == 0.25f);
  for (const auto& [y, x] : std::initializer_list<std::pair<float, float>>{
           {inf, 1}, {1, inf}, {-1, -inf}, {inf, inf}, {-inf, inf}, {0, -inf}, {inf, 0}}) {
    CHECK(of(f::atan2{}, y, x).a == 0);
    CHECK(of(f::atan2{}, y, x).b == 0);
  }
  CHECK(std::isnan(of(f::atan2{}, inf, std::nanf("")).a));
}
