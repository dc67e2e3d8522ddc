#include <doctest/doctest.h>

#include <gradus/cpu/coarse_pack.hpp>
#include <gradus/cpu/simd_log1p.hpp>
#include <gradus/cpu/simd_math.hpp>
#include <gradus/cpu/simd_rounding.hpp>
#include <gradus/cpu/simd_trigonometry.hpp>
#include <gradus/ops/elementwise/functions.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <random>

#include "../../support/seed.hpp"

namespace gr = gradus;

namespace {

constexpr float inf = std::numeric_limits<float>::infinity();
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

using packs = gr::pack<float>;
using exact = long double;

template <class F>
float one(const F& f, float x) {
  float lanes[gr::lanes<float>];
  f(packs(x)).store(lanes);
  return lanes[gr::lanes<float> - 1];
}

// Distance in units of the last place of the float nearest to `wanted`.
double ulps(float found, exact wanted) {
  const auto nearest = static_cast<float>(wanted);
  if (found == nearest || (std::isnan(found) && std::isnan(nearest))) return 0;
  if (std::isinf(nearest) || !std::isfinite(found) || std::isnan(nearest)) return inf;
  const exact unit = static_cast<exact>(std::nextafter(std::abs(nearest), inf)) - static_cast<exact>(std::abs(nearest));
  return static_cast<double>(std::abs(static_cast<exact>(found) - wanted) / unit);
}

// Bit patterns in steps of 9973 (199999 where long double is computed in software): every exponent, subnormals,
// infinity and NaN of either sign, and many mantissas.
template <class F, class Reference>
double worst_ulps(const F& f, const Reference& reference) {
  constexpr std::uint64_t all = std::uint64_t{1} << 32;
  constexpr std::uint64_t step = std::numeric_limits<exact>::digits > 64 ? 199999 : 9973;
  double worst = 0;
  for (std::uint64_t bits = 0; bits < all;) {
    float x[gr::lanes<float>];
    for (float& v : x) v = std::bit_cast<float>(static_cast<std::uint32_t>(std::min(bits, all - 1))), bits += step;
    float y[gr::lanes<float>];
    f(packs::load(x)).store(y);
    for (std::size_t i = 0; i < gr::lanes<float>; ++i)
      worst = std::max(worst, ulps(y[i], reference(static_cast<exact>(x[i]))));
  }
  for (const float x : {0.0f, -0.0f, inf, -inf, not_a_number, std::numeric_limits<float>::max(),
                        std::numeric_limits<float>::lowest(), std::numeric_limits<float>::denorm_min(),
                        -std::numeric_limits<float>::denorm_min(), std::numeric_limits<float>::min()})
    worst = std::max(worst, ulps(one(f, x), reference(static_cast<exact>(x))));
  return worst;
}

exact exact_sigmoid(exact x) { return 1 / (1 + std::exp(-x)); }
// x times what falls faster than x grows: 0 at minus infinity.
template <class F>
exact times(exact x, const F& factor) {
  return x == -std::numeric_limits<exact>::infinity() ? -0.0L : x * factor(x);
}
exact exact_gelu(exact x) {
  const exact inner = std::sqrt(2 / std::numbers::pi_v<exact>) * (x + 0.044715L * x * x * x);
  return times(x, [=](exact) { return exact_sigmoid(2 * inner); });  // (1 + tanh(u)) / 2, without its cancellation
}
exact exact_normal_cdf(exact x) { return std::erfc(-x / std::numbers::sqrt2_v<exact>) / 2; }

}  // namespace

// The bounds of docs/guide/numbers.md.
TEST_CASE("functions of packs of floats are within 4 units of the last place, over all magnitudes and at the edges") {
  CHECK(worst_ulps([](packs x) { return exp(x); }, [](exact x) { return std::exp(x); }) < 1.5);
  CHECK(worst_ulps([](packs x) { return log(x); }, [](exact x) { return std::log(x); }) < 1.5);
  CHECK(worst_ulps([](packs x) { return sqrt(x); }, [](exact x) { return std::sqrt(x); }) == 0);
  CHECK(worst_ulps(gr::functor::rsqrt{}, [](exact x) { return 1 / std::sqrt(x); }) < 2);
  CHECK(worst_ulps([](packs x) { return tanh(x); }, [](exact x) { return std::tanh(x); }) < 2);
  CHECK(worst_ulps([](packs x) { return erf(x); }, [](exact x) { return std::erf(x); }) < 2);
  CHECK(worst_ulps([](packs x) { return sigmoid(x); }, exact_sigmoid) < 3);
  CHECK(worst_ulps([](packs x) { return silu(x); }, [](exact x) { return times(x, exact_sigmoid); }) < 3.5);
  CHECK(worst_ulps([](packs x) { return gelu(x); }, exact_gelu) < 3.5);
  CHECK(worst_ulps([](packs x) { return gelu_erf(x); }, [](exact x) { return times(x, exact_normal_cdf); }) < 4);
  CHECK(worst_ulps([](packs x) { return normal_cdf(x); }, exact_normal_cdf) < 4.5);
  CHECK(worst_ulps([](packs x) { return sin(x); }, [](exact x) { return std::sin(x); }) < 1);
  CHECK(worst_ulps([](packs x) { return cos(x); }, [](exact x) { return std::cos(x); }) < 1);
  CHECK(worst_ulps([](packs x) { return log1p(x); }, [](exact x) { return std::log1p(x); }) < 2.5);
  CHECK(worst_ulps([](packs x) { return expm1(x); }, [](exact x) { return std::expm1(x); }) < 2.5);
  CHECK(worst_ulps([](packs x) { return softplus(x); },
                   [](exact x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }) < 3);
  CHECK(worst_ulps([](packs x) { return floor(x); }, [](exact x) { return std::floor(x); }) == 0);
  CHECK(worst_ulps([](packs x) { return ceil(x); }, [](exact x) { return std::ceil(x); }) == 0);
  CHECK(worst_ulps([](packs x) { return round(x); }, [](exact x) { return std::rint(x); }) == 0);
  for (const float y : {0.5f, 2.0f, 3.0f, -1.0f, -0.3f, 20.0f})
    CHECK(worst_ulps([=](packs x) { return pow(x, packs(y)); },
                     [=](exact x) { return std::pow(x, static_cast<exact>(y)); }) < 1.5);
  for (const float x : {0.5f, 1.0001f, 7.0f, 1e-30f, 1e-40f, 3e38f, -2.0f})
    CHECK(worst_ulps([=](packs y) { return pow(packs(x), y); },
                     [=](exact y) { return std::pow(static_cast<exact>(x), y); }) < 1.5);
}

TEST_CASE("pow of packs of positive finite floats is rounded once: within 0.51 units of the last place") {
  std::mt19937 engine(gradus_test::fresh_seed());
  std::uniform_real_distribution<float> of_base(-1, 1), of_result(-125, 127);  // logarithms to base 2
  double worst = 0;
  for (int i = 0; i < 4000; ++i) {
    float x[gr::lanes<float>], y[gr::lanes<float>], found[gr::lanes<float>];
    for (std::size_t l = 0; l < gr::lanes<float>; ++l) {
      x[l] = std::exp2(of_base(engine));
      y[l] = x[l] == 1 ? 2 : of_result(engine) / std::log2(x[l]);
    }
    pow(packs::load(x), packs::load(y)).store(found);
    for (std::size_t l = 0; l < gr::lanes<float>; ++l)
      worst = std::max(worst, ulps(found[l], std::pow(static_cast<exact>(x[l]), static_cast<exact>(y[l]))));
  }
  CHECK(worst < 0.51);
}

TEST_CASE("pow of packs is std::pow at zeros, infinities, NaN and below zero, whatever stands beside it") {
  const float edges[] = {0.0f, -0.0f, 1.0f, -1.0f, 2.0f, -2.0f, 0.5f, 3.0f, -3.0f, 1e-42f, inf, -inf, not_a_number};
  for (const float x : edges)
    for (const float y : edges) {
      CAPTURE(x);
      CAPTURE(y);
      float a[gr::lanes<float>], b[gr::lanes<float>], c[gr::lanes<float>];
      std::fill(std::begin(a), std::end(a), 1.5f);
      std::fill(std::begin(b), std::end(b), 2.0f);
      a[1] = x, b[1] = y;
      pow(packs::load(a), packs::load(b)).store(c);
      const float wanted = std::pow(x, y);
      const bool same =
          std::isnan(wanted) ? std::isnan(c[1]) : c[1] == wanted && std::signbit(c[1]) == std::signbit(wanted);
      CHECK(same);
      CHECK(c[0] == 2.25f);
    }
}

TEST_CASE("sin and cos of packs are rounded once up to 1.6 million, near multiples of pi/2, too; atan2 everywhere") {
  double worst = 0;
  for (int n = 0; n < 1000000; n += 7) {
    const float x = static_cast<float>(n * (std::numbers::pi_v<exact> / 2));
    for (const float at : {x, std::nextafter(x, inf)}) {
      worst = std::max(worst, ulps(one([](packs p) { return sin(p); }, at), std::sin(static_cast<exact>(at))));
      worst = std::max(worst, ulps(one([](packs p) { return cos(p); }, -at), std::cos(static_cast<exact>(at))));
    }
  }
  CHECK(worst < 0.51);
  std::mt19937 engine(gradus_test::fresh_seed());
  std::uniform_int_distribution<std::uint32_t> bits;  // of every magnitude
  worst = 0;
  for (int i = 0; i < 4000; ++i) {
    float y[gr::lanes<float>], x[gr::lanes<float>], found[gr::lanes<float>];
    for (std::size_t l = 0; l < gr::lanes<float>; ++l) {
      y[l] = std::bit_cast<float>(bits(engine) & 0xFEFFFFFF);  // finite
      x[l] = i % 2 == 0 ? std::bit_cast<float>(bits(engine) & 0xFEFFFFFF) : y[l] * (static_cast<float>(i % 97) * 0.02f);
      if (y[l] == 0) x[l] = 1;
    }
    atan2(packs::load(y), packs::load(x)).store(found);
    for (std::size_t l = 0; l < gr::lanes<float>; ++l)
      worst = std::max(worst, ulps(found[l], std::atan2(static_cast<exact>(y[l]), static_cast<exact>(x[l]))));
  }
  CHECK(worst < 0.51);
}

TEST_CASE("packs are rounded to integers, and atan2 has quadrants, as the C library has them, signs of zero included") {
  const auto same = [](float a, float b) {
    return (std::isnan(a) && std::isnan(b)) || std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
  };
  const float edges[] = {0.0f,        -0.0f, 0.5f,   -0.5f, 1.5f, 2.5f,         -2.5f, 0.49999997f, 8388607.5f,
                         -8388607.5f, 1e30f, 1e-40f, inf,   -inf, not_a_number, 3.0f,  -0.2f,       0.9999999f};
  for (const float x : edges) {
    CAPTURE(x);
    CHECK(same(one([](packs p) { return floor(p); }, x), std::floor(x)));
    CHECK(same(one([](packs p) { return ceil(p); }, x), std::ceil(x)));
    CHECK(same(one([](packs p) { return round(p); }, x), std::rint(x)));
    CHECK(same(one([](packs p) { return sign(p); }, x), gr::math::sign(x)));
    double wide[gr::lanes<double>];
    round(gr::pack<double>(x)).store(wide);
    CHECK((std::isnan(x) || wide[0] == std::rint(x)));
    for (const float y : edges) {
      const float angle = one([=](packs p) { return atan2(packs(y), p); }, x);
      CHECK(ulps(angle, std::atan2(static_cast<exact>(y), static_cast<exact>(x))) < 0.51);
      CHECK((std::isnan(angle) || std::signbit(angle) == std::signbit(y)));
    }
  }
}

TEST_CASE("scalar functions are within 1 unit of the last place of what packs compute to 4") {
  for (const float x :
       {-103.0f, -90.0f, -20.0f, -9.9f, -3.3f, -0.4f, 1e-30f, 0.7f, 8.0f, 100.0f, inf, -inf, not_a_number}) {
    const auto e = static_cast<exact>(x);
    CAPTURE(x);
    CHECK(ulps(gr::math::sigmoid(x), exact_sigmoid(e)) < 1);
    CHECK(ulps(gr::math::silu(x), times(e, exact_sigmoid)) < 1);
    CHECK(ulps(gr::math::gelu(x), exact_gelu(e)) < 1);
    CHECK(ulps(gr::math::gelu_erf(x), times(e, exact_normal_cdf)) < 1);
  }
}

TEST_CASE("functions of packs keep the sign of zero where the functions do") {
  CHECK(std::signbit(one([](packs x) { return tanh(x); }, -0.0f)));
  CHECK(std::signbit(one([](packs x) { return erf(x); }, -0.0f)));
  CHECK(std::signbit(one([](packs x) { return silu(x); }, -0.0f)));
  CHECK(std::signbit(one([](packs x) { return gelu(x); }, -0.0f)));
  CHECK(std::signbit(one([](packs x) { return gelu_erf(x); }, -0.0f)));
  CHECK(std::signbit(one([](packs x) { return sin(x); }, -0.0f)));
  CHECK(std::signbit(one([](packs x) { return log1p(x); }, -0.0f)));
  CHECK(std::signbit(one([](packs x) { return expm1(x); }, -0.0f)));
  CHECK(one([](packs x) { return exp(x); }, 0.0f) == 1.0f);
}

TEST_CASE("falling_exp for results of 16 bits is within a part in 100,000, and 0 where they would be") {
  const auto falling = [](packs x) { return gr::falling_exp<gr::bf16>(x); };
  double worst = 0;
  for (float x = 0; x >= -87; x -= 0.00713f)
    worst = std::max(worst, std::abs(static_cast<double>(one(falling, x)) / std::exp(static_cast<double>(x)) - 1));
  CHECK(worst < 1e-5);
  CHECK(one(falling, 0.0f) == 1.0f);
  CHECK(one(falling, -0.0f) == 1.0f);
  for (const float x : {-87.5f, -1e3f, -1e30f, -inf}) CHECK(one(falling, x) == 0.0f);
  CHECK(std::isnan(one(falling, not_a_number)));
  CHECK(one([](packs x) { return gr::falling_exp<float>(x); }, -0.7f) == one([](packs x) { return exp(x); }, -0.7f));
}

TEST_CASE("functions of coarse packs are within a few parts in 100,000, over all magnitudes and at the edges") {
  const auto check = [](auto coarse, auto fine, double least) {
    const auto at = [&](float x) {
      return one([&](packs p) { return static_cast<packs>(coarse(gr::coarse_pack(p))); }, x);
    };
    double worst = 0;
    for (float size = 1e-6f; size < 100; size *= 1.0137f)
      for (const float x : {size, -size}) {
        const double exactly = static_cast<double>(fine(static_cast<exact>(x)));
        if (std::abs(exactly) < least) CHECK(std::abs(static_cast<double>(at(x))) <= least);
        else worst = std::max(worst, std::abs(static_cast<double>(at(x)) / exactly - 1));
      }
    CHECK(worst < 3e-5);
    for (const float x : {inf, -inf}) {  // what floats give, the sign of zero included
      const float expected = static_cast<float>(fine(static_cast<exact>(x < 0 ? -1e4f : 1e4f)));
      CHECK((std::isfinite(expected) && std::abs(expected) < 2 ? at(x) == expected : at(x) == inf));
    }
    CHECK(std::isnan(at(not_a_number)));
    CHECK(at(0.0f) == static_cast<float>(fine(exact(0))));
  };
  check([](auto x) { return sigmoid(x); }, [](exact x) { return exact_sigmoid(x); }, 1e-37);
  check([](auto x) { return tanh(x); }, [](exact x) { return std::tanh(x); }, 0);
  check([](auto x) { return silu(x); }, [](exact x) { return x * exact_sigmoid(x); }, 1e-35);
  check([](auto x) { return gelu(x); },
        [](exact x) {
          return x * exact_sigmoid(x * (exact(1.59576912160573071176L) + exact(0.07135481627260024878L) * x * x));
        },
        1e-35);
}

TEST_CASE_TEMPLATE("multiply_add is a b + c, rounded once where the processor has the instruction", T, float, double) {
  std::mt19937 engine(gradus_test::fresh_seed());
  std::normal_distribution<T> any;
  T a[gr::lanes<T>], b[gr::lanes<T>], c[gr::lanes<T>], found[gr::lanes<T>];
  for (std::size_t i = 0; i < gr::lanes<T>; ++i) a[i] = any(engine), b[i] = any(engine), c[i] = any(engine);
  gr::multiply_add(gr::pack<T>::load(a), gr::pack<T>::load(b), gr::pack<T>::load(c)).store(found);
  for (std::size_t i = 0; i < gr::lanes<T>; ++i) {
    const T once = std::fma(a[i], b[i], c[i]);
#if defined(__FMA__)
    CHECK(found[i] == once);
#else
    CHECK(found[i] == doctest::Approx(static_cast<double>(once)));
#endif
  }
}

TEST_CASE("lanes_at takes lanes in any order") {
  constexpr std::size_t n = gr::lanes<float>;
  packs from;
  packs::mask_native places;
  for (std::size_t i = 0; i < n; ++i)
    from.v[i] = static_cast<float>(i), places[i] = static_cast<int>((i * 5 + 3) % (2 * n));
  for (std::size_t i = 0; i < n; ++i) CHECK(gr::lanes_at(from, places).v[i] == static_cast<float>((i * 5 + 3) % n));
}

TEST_CASE("sqrt of packs of doubles is std::sqrt, bit for bit") {
  for (const double x : {0.0, 1.0, 2.0, 3.0, 1e300, 1e-310, 0.1, std::numeric_limits<double>::infinity()}) {
    double out[gr::lanes<double>];
    sqrt(gr::pack<double>(x)).store(out);
    for (const double y : out) CHECK(y == std::sqrt(x));
  }
}

TEST_CASE("abs of packs clears the sign, of zero and infinity too, and keeps NaN") {
  const auto f = [](gr::pack<float> x) { return abs(x); };
  CHECK(one(f, -2.5f) == 2.5f);
  CHECK(!std::signbit(one(f, -0.0f)));
  CHECK(one(f, -inf) == inf);
  CHECK(std::isnan(one(f, not_a_number)));
}

TEST_CASE("parts of packs are loaded and stored without touching what lies beyond") {
  constexpr std::size_t lanes = gr::lanes<float>, most = lanes - 1;
  float in[lanes];
  for (std::size_t i = 0; i < lanes; ++i) in[i] = static_cast<float>(i + 1);
  float out[lanes];
  gr::pack<float>::load(in, most).store(out);
  CHECK(out[most - 1] == static_cast<float>(most));
  CHECK(out[most] == 0);
  float narrow[3] = {-1, -1, -1};
  gr::pack<float>::load(in, 3).store(narrow, 2);
  CHECK(narrow[1] == 2);
  CHECK(narrow[2] == -1);
  CHECK(sum_lanes(gr::pack<float>::load(in, 3)) == 6);
  CHECK(max_lanes(gr::pack<float>::load(in, 3)) == 3);
}
