#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <gradus/core/philox.hpp>
#include <random>
#include <set>

#include "../../support/seed.hpp"

using namespace gradus;
using words = std::array<std::uint32_t, 4>;

TEST_CASE("Philox4x32-10 gives the known answers of Random123, at compile time too") {
  static_assert(philox4x32({0, 0, 0, 0}, {0, 0}) == words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox4x32({0, 0, 0, 0}, {0, 0}) == words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  const std::uint32_t f = 0xffffffff;
  CHECK(philox4x32({f, f, f, f}, {f, f}) == words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("seed, step, ordinal and group each change the words") {
  std::set<words> seen;
  for (const random_key key : {random_key{0, 0, 0}, random_key{1, 0, 0}, random_key{std::uint64_t{1} << 32, 0, 0},
                               random_key{0, 1, 0}, random_key{0, 0, 1}})
    for (const std::uint64_t group : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1} << 32})
      seen.insert(key.words(group));
  CHECK(seen.size() == 15);
}

TEST_CASE("the counter is the group below the domain, the ordinal and the step, and the seed is the key") {
  std::mt19937_64 draw(gradus_test::fresh_seed());
  const auto low = [](std::uint64_t x) { return static_cast<std::uint32_t>(x % 0x100000000u); };
  const auto high = [](std::uint64_t x) { return static_cast<std::uint32_t>(x / 0x100000000u); };
  for (const random_domain domain : {random_domain::user, random_domain::tape, random_domain::rounding})
    for (const std::uint64_t group : {std::uint64_t{0}, draw() % 0x100000000u, draw() % 0x100000000000000u}) {
      const random_key key{draw(), low(draw()), low(draw()), domain};
      const std::uint32_t upper = high(group) + 0x1000000u * static_cast<std::uint32_t>(domain);
      CHECK(key.words(group) ==
            philox4x32({low(group), upper, key.ordinal, key.step}, {low(key.seed), high(key.seed)}));
    }
}

TEST_CASE("uniform_float covers [0, 1) and never gives 1") {
  CHECK(uniform_float(0) == 0.0f);
  CHECK(uniform_float(0xffffffff) < 1.0f);
  CHECK(uniform_float(0x80000000) == 0.5f);
}

TEST_CASE("uniform draws have the moments of their distribution, and neighbours do not correlate") {
  const random_key key{42, 3, 7};
  double sum = 0, squares = 0, neighbours = 0, last = 0;
  constexpr int groups = 100000, pairs = 2 * groups, n = 2 * pairs;
  for (int g = 0; g < groups; ++g)
    for (const std::uint32_t w : key.words(static_cast<std::uint64_t>(g))) {
      const double x = static_cast<double>(uniform_float(w)) - 0.5;
      sum += x;
      squares += x * x;
      neighbours += x * last;
      last = x;
    }
  // Four standard errors of each estimate.
  CHECK(std::abs(sum / n) < 4 * std::sqrt(1.0 / 12 / n));
  CHECK(std::abs(squares / n - 1.0 / 12) < 4 * std::sqrt(1.0 / 180 / n));
  CHECK(std::abs(neighbours / n) < 4 * (1.0 / 12) / std::sqrt(static_cast<double>(n)));
}

TEST_CASE("normal draws have mean 0, variance 1, no skew, kurtosis 3, and the two of a pair do not correlate") {
  const random_key key{9, 0, 0};
  double sum = 0, squares = 0, cubes = 0, fourths = 0, product = 0;
  constexpr int groups = 100000, pairs = 2 * groups, n = 2 * pairs;
  for (int g = 0; g < groups; ++g) {
    const auto w = key.words(static_cast<std::uint64_t>(g));
    for (const auto pair : {normal_pair(w[0], w[1]), normal_pair(w[2], w[3])}) {
      product += static_cast<double>(pair[0]) * static_cast<double>(pair[1]);
      for (const float z : pair) {
        const auto x = static_cast<double>(z);
        sum += x;
        squares += x * x;
        cubes += x * x * x;
        fourths += x * x * x * x;
      }
    }
  }
  const double root = std::sqrt(static_cast<double>(n));
  CHECK(std::abs(sum / n) < 4 / root);
  CHECK(std::abs(squares / n - 1) < 4 * std::sqrt(2.0) / root);
  CHECK(std::abs(cubes / n) < 4 * std::sqrt(15.0) / root);
  CHECK(std::abs(fourths / n - 3) < 4 * std::sqrt(96.0) / root);
  CHECK(std::abs(product / pairs) < 4 * std::sqrt(2.0) / root);
}

TEST_CASE("the extreme words give finite normal draws") {
  for (const std::uint32_t a : {0u, 0xffffffffu})
    for (const std::uint32_t b : {0u, 0xffffffffu})
      for (const float z : normal_pair(a, b)) CHECK(std::isfinite(z));
}

TEST_CASE("draws of two keys that differ in one place do not correlate") {
  for (const random_key other : {random_key{6, 0, 0}, random_key{5, 1, 0}, random_key{5, 0, 1}}) {
    const random_key key{5, 0, 0};
    double product = 0;
    constexpr int groups = 50000;
    for (std::uint64_t g = 0; g < groups; ++g) {
      const auto a = key.words(g), b = other.words(g);
      for (std::size_t i = 0; i < 4; ++i)
        product += (static_cast<double>(uniform_float(a[i])) - 0.5) * (static_cast<double>(uniform_float(b[i])) - 0.5);
    }
    CHECK(std::abs(product / (4 * groups)) < 4 * (1.0 / 12) / std::sqrt(4.0 * groups));
  }
}
