#include <doctest/doctest.h>

#include <gradus/cpu/simd.hpp>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

namespace gr = gradus;

namespace {

constexpr float inf = std::numeric_limits<float>::infinity();
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

template <class F>
float one(const F& f, float x) {
  float lanes[gr::lanes<float>];
  f(gr::pack<float>(x)).store(lanes);
  return lanes[3];
}
const auto exp_of = [](gr::pack<float> x) { return exp(x); };
const auto tanh_of = [](gr::pack<float> x) { return tanh(x); };
const auto sqrt_of = [](gr::pack<float> x) { return sqrt(x); };

// Distance in units of the last place of the float nearest to `wanted`.
double ulps(float found, double wanted) {
  const auto nearest = static_cast<float>(wanted);
  if (found == nearest) return 0;
  if (std::isinf(nearest) || std::isinf(found)) return inf;
  const double unit =
      static_cast<double>(std::nextafter(std::abs(nearest), inf)) - static_cast<double>(std::abs(nearest));
  return std::abs(static_cast<double>(found) - wanted) / unit;
}

// Every float is visited in steps of 977 bit patterns: all exponents, many mantissas.
template <class F, class Reference>
double worst_ulps(const F& f, const Reference& reference, float from, float to) {
  double worst = 0;
  const std::uint32_t first = std::bit_cast<std::uint32_t>(from);
  const std::uint32_t last = std::bit_cast<std::uint32_t>(to);
  for (std::uint32_t bits = first; bits <= last && bits >= first;) {
    float x[gr::lanes<float>];
    for (float& v : x) v = std::bit_cast<float>(std::min(bits, last)), bits += 977;
    float y[gr::lanes<float>];
    f(gr::pack<float>::load(x)).store(y);
    for (std::size_t i = 0; i < gr::lanes<float>; ++i)
      worst = std::max(worst, ulps(y[i], reference(static_cast<double>(x[i]))));
  }
  return worst;
}
double exact_exp(double x) { return std::exp(x); }
double exact_tanh(double x) { return std::tanh(x); }

}  // namespace

TEST_CASE(
    "exp of packs is within two units of the last place over all floats, through subnormal results to 0 and infinity") {
  CHECK(worst_ulps(exp_of, exact_exp, 0.0f, 88.72283f) < 2);
  CHECK(worst_ulps(exp_of, exact_exp, -0.0f, -87.33654f) < 2);
  CHECK(worst_ulps(exp_of, exact_exp, -87.33655f, -103.9f) < 2);  // subnormal results
  CHECK(one(exp_of, 88.73f) == inf);
  CHECK(one(exp_of, 1e30f) == inf);
  CHECK(one(exp_of, inf) == inf);
  CHECK(one(exp_of, -104.0f) == 0.0f);
  CHECK(one(exp_of, -inf) == 0.0f);
  CHECK(one(exp_of, std::numeric_limits<float>::lowest()) == 0.0f);
  CHECK(std::isnan(one(exp_of, not_a_number)));
  CHECK(std::isnan(one(exp_of, -not_a_number)));
  CHECK(one(exp_of, 0.0f) == 1.0f);
  CHECK(one(exp_of, 1e-40f) == 1.0f);
}

TEST_CASE("tanh of packs is within three units of the last place over all floats") {
  CHECK(worst_ulps(tanh_of, exact_tanh, 0.0f, std::numeric_limits<float>::max()) < 3);
  CHECK(worst_ulps(tanh_of, exact_tanh, -0.0f, std::numeric_limits<float>::lowest()) < 3);
  CHECK(one(tanh_of, inf) == 1.0f);
  CHECK(one(tanh_of, -inf) == -1.0f);
  CHECK(std::isnan(one(tanh_of, not_a_number)));
  CHECK(one(tanh_of, 1e-42f) == 1e-42f);
  CHECK(std::signbit(one(tanh_of, -0.0f)));
}

TEST_CASE("sqrt of packs is std::sqrt, bit for bit") {
  CHECK(worst_ulps(
            sqrt_of, [](double x) { return static_cast<double>(std::sqrt(static_cast<float>(x))); }, 0.0f, inf) == 0);
  CHECK(std::isnan(one(sqrt_of, -1.0f)));
  CHECK(std::isnan(one(sqrt_of, not_a_number)));
  double out[gr::lanes<double>];
  const double in[gr::lanes<double>] = {0, 1, 2, 3, 1e300, 1e-310, 0.1, std::numeric_limits<double>::infinity()};
  sqrt(gr::pack<double>::load(in)).store(out);
  for (std::size_t i = 0; i < gr::lanes<double>; ++i) CHECK(out[i] == std::sqrt(in[i]));
}

TEST_CASE("abs of packs clears the sign, of zero and infinity too, and keeps NaN") {
  const auto f = [](gr::pack<float> x) { return abs(x); };
  CHECK(one(f, -2.5f) == 2.5f);
  CHECK(!std::signbit(one(f, -0.0f)));
  CHECK(one(f, -inf) == inf);
  CHECK(std::isnan(one(f, not_a_number)));
}

TEST_CASE("parts of packs are loaded and stored without touching what lies beyond") {
  const float in[5] = {1, 2, 3, 4, 5};
  float out[gr::lanes<float>];
  gr::pack<float>::load(in, 3).store(out);
  CHECK(out[2] == 3);
  CHECK(out[3] == 0);
  gr::pack<float>::load(in, 3, 7.0f).store(out);
  CHECK(out[3] == 7);
  CHECK(out[15] == 7);
  float narrow[3] = {-1, -1, -1};
  gr::pack<float>::load(in, 5).store(narrow, 2);
  CHECK(narrow[1] == 2);
  CHECK(narrow[2] == -1);
  CHECK(sum_lanes(gr::pack<float>::load(in, 5)) == 15);
  CHECK(max_lanes(gr::pack<float>::load(in, 5)) == 5);
}
