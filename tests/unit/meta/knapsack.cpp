#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <gradus/core/error.hpp>
#include <gradus/meta/knapsack.hpp>
#include <random>
#include <string>
#include <vector>

using namespace gradus;

namespace {
keep_choice weigh(const std::vector<keep_item>& items, std::uint32_t kept) {
  keep_choice c{0, 0, kept};
  for (std::size_t i = 0; i < items.size(); ++i)
    if (kept >> i & 1U) c.bytes += items[i].bytes;
    else c.time += items[i].time;
  return c;
}
}  // namespace

TEST_CASE("the knapsack has the best choice for every capacity") {
  std::mt19937 random(1);
  for (std::size_t n = 0; n <= 10; ++n)
    for (int repeat = 0; repeat < 10; ++repeat) {
      std::vector<keep_item> items(n);
      for (keep_item& i : items) i = {random() % 20, static_cast<double>(random() % 20)};
      const std::vector<keep_choice> front = knapsack(items, 1000);
      REQUIRE(!front.empty());
      for (std::size_t capacity = 0; capacity <= 200; ++capacity) {
        double best = 1e9, found = 1e9;
        for (std::uint32_t kept = 0; kept < std::uint32_t{1} << n; ++kept)
          if (const keep_choice c = weigh(items, kept); c.bytes <= capacity) best = std::min(best, c.time);
        for (const keep_choice& c : front)
          if (c.bytes <= capacity) found = std::min(found, c.time);
        REQUIRE(found == best);
      }
      for (std::size_t i = 0; i < front.size(); ++i) {
        const keep_choice c = weigh(items, front[i].kept);
        REQUIRE(c.bytes == front[i].bytes);
        REQUIRE(c.time == front[i].time);
        if (i > 0) {
          REQUIRE(front[i - 1].bytes < front[i].bytes);
          REQUIRE(front[i - 1].time > front[i].time);
        }
      }
    }
}

TEST_CASE("a long front is thinned to some of its own choices, with the smallest and the fastest") {
  std::mt19937 random(2);
  std::vector<keep_item> items(24);
  for (keep_item& i : items) i = {1 + random() % 1000000, 1e-6 * static_cast<double>(1 + random() % 1000)};
  const std::vector<keep_choice> all = knapsack(items, std::size_t{1} << 30), few = knapsack(items, 16);
  CHECK(all.size() > 100);
  CHECK(few.size() <= 16);
  CHECK(few.size() >= 10);
  CHECK(few.front().kept == all.front().kept);
  CHECK(few.back().kept == (std::uint32_t{1} << 24) - 1);
  CHECK(few.back().time == 0);
  CHECK(knapsack(items, 1).size() == 2);
  for (const keep_choice& c : few) {
    bool own = false;
    for (const keep_choice& a : all) own = own || a.kept == c.kept;
    CHECK(own);
  }
}

TEST_CASE("what costs no bytes is always kept, and what saves no time never") {
  const std::vector<keep_choice> front = knapsack({{0, 1.0}, {5, 0.0}, {7, 2.0}});
  REQUIRE(front.size() == 2);
  CHECK(front[0].kept == 1);
  CHECK(front[0].time == 2.0);
  CHECK(front[1].kept == 5);
  CHECK(front[1].bytes == 7);
}

TEST_CASE("more values than a knapsack takes are refused") {
  CHECK_THROWS_WITH_AS(static_cast<void>(knapsack(std::vector<keep_item>(33))),
                       "knapsack: 33 values to choose from; at most 32, so join some", error);
}
