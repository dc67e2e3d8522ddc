#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <gradus/data/batches.hpp>
#include <gradus/data/prefetch.hpp>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "../../support/floating_modes.hpp"
#include "../../support/message_of.hpp"
#include "../../support/seed.hpp"

namespace {

using gradus::prefetcher;

// Waits for a moment that depends on the number, so that workers finish out of order.
void dawdle(std::uint64_t number) { std::this_thread::sleep_for(std::chrono::microseconds(number * 7919 % 13 * 50)); }

}  // namespace

TEST_CASE("a prefetcher hands out the same batches in the same order on 0, 1 and 4 threads, from any number on") {
  std::vector<std::uint16_t> tokens(5000);
  std::mt19937 random(gradus_test::fresh_seed());
  for (auto& t : tokens) t = static_cast<std::uint16_t>(random());
  const gradus::token_windows<std::uint16_t, 16> windows({{tokens, "tokens"}});
  const std::uint64_t seed = random();
  const auto make = [&](std::uint64_t number) {
    dawdle(number);
    return windows.shuffled_batch<4>(seed, number);
  };
  for (const std::uint64_t first : {std::uint64_t{0}, std::uint64_t{random() % 1000}})
    for (const std::size_t workers : {0u, 1u, 4u})
      for (const std::size_t ahead : {1u, 3u, 8u}) {
        prefetcher batches(make, {.first = first, .workers = workers, .ahead = ahead});
        CHECK(batches.workers() == std::min(workers, ahead));
        for (std::uint64_t number = first; number < first + 30; ++number) {
          REQUIRE(batches.position() == number);
          const auto batch = batches.next(), expected = windows.shuffled_batch<4>(seed, number);
          REQUIRE(batch.inputs == expected.inputs);
          REQUIRE(batch.targets == expected.targets);
        }
      }
}

TEST_CASE("batches are made in the floating-point mode in which their prefetcher was made, on 0, 1 and 4 threads") {
  for (const auto set_mode : gradus_test::unusual_modes())
    for (const std::size_t workers : {0u, 1u, 4u}) {
      const auto usual = gradus_test::marks_of_mode();
      const gradus_test::usual_mode_again after;
      const auto make = [](std::uint64_t) { return gradus_test::marks_of_mode(); };
      prefetcher before(make, {.workers = workers, .ahead = 4});
      set_mode();
      const auto unusual = gradus_test::marks_of_mode();
      prefetcher batches(make, {.workers = workers, .ahead = 4});
      for (int n = 0; n < 10; ++n) {
        CHECK(batches.next() == unusual);
        CHECK(before.next() == usual);
      }
      CHECK(gradus_test::marks_of_mode() == unusual);
    }
}

TEST_CASE("a prefetcher makes no more batches than it was told to before they are asked for") {
  for (const std::size_t workers : {1u, 4u}) {
    std::atomic<std::uint64_t> taken = 0;
    constexpr std::size_t ahead = 3;
    std::atomic<bool> too_far = false;
    prefetcher batches(
        [&](std::uint64_t number) {
          if (number >= taken + ahead) too_far = true;
          dawdle(number);
          return number;
        },
        {.workers = workers, .ahead = ahead});
    for (std::uint64_t number = 0; number < 50; ++number) {
      taken = number + 1;  // room for one more is made within next()
      CHECK(batches.next() == number);
    }
    CHECK_FALSE(too_far);
  }
}

TEST_CASE("workers of a prefetcher are at work at the same time, and before they are asked") {
  std::mutex mutex;
  std::condition_variable arrived;
  int there = 0;
  prefetcher batches(
      [&](std::uint64_t number) {
        std::unique_lock lock(mutex);
        ++there;
        arrived.notify_all();
        arrived.wait(lock, [&] { return there >= 3; });  // ends only if three are made at once
        return number;
      },
      {.workers = 3, .ahead = 3});
  std::unique_lock lock(mutex);
  arrived.wait(lock, [&] { return there >= 3; });
  lock.unlock();
  for (std::uint64_t number = 0; number < 3; ++number) CHECK(batches.next() == number);
}

TEST_CASE("what making a batch throws reaches the reader at that batch, and every time it is asked for again") {
  for (const std::size_t workers : {0u, 1u, 4u}) {
    prefetcher batches(
        [](std::uint64_t number) {
          dawdle(number);
          if (number == 7) throw gradus::error("shard 7 is damaged");
          return std::to_string(number);
        },
        {.first = 2, .workers = workers, .ahead = 4});
    for (std::uint64_t number = 2; number < 7; ++number) CHECK(batches.next() == std::to_string(number));
    for (int again = 0; again < 3; ++again) {
      CHECK(gradus_test::message_of([&] { batches.next(); }) == "shard 7 is damaged");
      CHECK(batches.position() == 7);
    }
  }
}

TEST_CASE("a prefetcher ends cleanly with batches that nobody read, and with none made") {
  std::mt19937 random(gradus_test::fresh_seed());
  for (int round = 0; round < 100; ++round) {
    const auto read = random() % 4;
    auto counted = std::make_shared<int>(1);
    const std::weak_ptr<int> alive = counted;
    {
      prefetcher batches(
          [&](std::uint64_t number) {
            if (number % 3 == 0) dawdle(number);
            return std::make_unique<std::shared_ptr<int>>(counted);  // batches may be such as can only be moved
          },
          {.workers = random() % 5, .ahead = 1 + random() % 6});
      for (std::size_t i = 0; i < read; ++i) REQUIRE((*batches.next() == counted));
    }
    CHECK(alive.use_count() == 1);
  }
}

TEST_CASE("a prefetcher that may hold nothing is refused") {
  const auto make = [](std::uint64_t number) { return number; };
  CHECK(gradus_test::message_of([&] { const prefetcher batches(make, {.ahead = 0}); }) ==
        "prefetcher: ahead is 0; it must be 1 or more");
}
