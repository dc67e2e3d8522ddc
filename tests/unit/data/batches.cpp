#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <gradus/data/batches.hpp>
#include <gradus/data/prefetch.hpp>
#include <gradus/data/sample_batches.hpp>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "../../support/message_of.hpp"
#include "../../support/seed.hpp"

namespace {

using sequence = gradus::token_sequence;

// Sequences of the sizes given, whose tokens count on from one to the next.
struct counting {
  std::vector<std::vector<std::int32_t>> tokens;
  std::vector<sequence> sequences;
  explicit counting(const std::vector<std::size_t>& sizes) {
    std::int32_t next = 0;
    for (const std::size_t n : sizes) {
      tokens.emplace_back(n);
      std::iota(tokens.back().begin(), tokens.back().end(), next);
      next += static_cast<std::int32_t>(n);
    }
    for (std::size_t i = 0; i < sizes.size(); ++i) sequences.emplace_back(tokens[i], "shard " + std::to_string(i));
  }
};

// n inputs of two values and their targets: (2i, 2i + 1) and i.
gradus::sample_batches<float, std::int32_t> counted_samples(std::size_t n,
                                                            const gradus::sample_batch_options& options) {
  gradus::host_array<float> inputs{{n, 2}, std::vector<float>(2 * n)};
  gradus::host_array<std::int32_t> targets{{n}, std::vector<std::int32_t>(n)};
  std::iota(inputs.values.begin(), inputs.values.end(), 0.f);
  std::iota(targets.values.begin(), targets.values.end(), 0);
  return {std::move(inputs), std::move(targets), options};
}

}  // namespace

TEST_CASE("an epoch has every window once, in an order of its own") {
  const counting data(
      {100, 33, 9, 41});  // of 8: 12, 4, 1 and 5 windows, and tokens to spare in all but the second and the third
  const gradus::token_windows<std::int32_t, 8> windows(data.sequences);
  REQUIRE(windows.windows() == 22);
  CHECK(windows.tokens() == 183);
  std::mt19937 random(gradus_test::fresh_seed());
  const std::uint64_t seed = random();
  std::set<std::vector<std::int32_t>> orders;
  std::set<std::int32_t> seen;
  for (std::uint64_t epoch = 0; epoch < 40; ++epoch) {
    std::vector<std::int32_t> starts;
    for (std::uint64_t i = 0; i < 11; ++i) {
      const auto batch = windows.shuffled_batch<2>(seed, epoch * 11 + i);
      for (std::size_t row = 0; row < 2; ++row) starts.push_back(batch.inputs[row * 8]);
      seen.insert(batch.inputs.begin(), batch.inputs.end());
      seen.insert(batch.targets.begin(), batch.targets.end());
    }
    // Within a sequence, windows lie end to end from one place on.
    std::map<std::int32_t, std::vector<std::int32_t>> by_sequence;
    for (const std::int32_t s : starts) by_sequence[s < 100 ? 0 : s < 133 ? 1 : s < 142 ? 2 : 3].push_back(s);
    const std::array<std::size_t, 4> counts{12, 4, 1, 5};
    for (auto& [in, list] : by_sequence) {
      std::ranges::sort(list);
      CHECK(list.size() == counts[static_cast<std::size_t>(in)]);
      for (std::size_t i = 1; i < list.size(); ++i) CHECK(list[i] == list[i - 1] + 8);
    }
    orders.insert(starts);
  }
  CHECK(orders.size() == 40);
  CHECK(seen.size() == 183);  // no token is left out for good
}

TEST_CASE("targets are one token on, and no window crosses from one sequence into the next") {
  const counting data({20, 9, 50});
  const gradus::token_windows<std::int32_t, 8> windows(data.sequences);
  const auto check = [&](const auto& batch) {
    for (std::size_t i = 0; i < batch.inputs.size(); ++i) CHECK(batch.targets[i] == batch.inputs[i] + 1);
    for (std::size_t row = 0; row < 4; ++row) {
      const std::int32_t first = batch.inputs[row * 8], last = batch.targets[row * 8 + 7];
      CHECK(last == first + 8);
      CHECK((last < 20 || (first >= 20 && last < 29) || (first >= 29 && last < 79)));
    }
  };
  for (std::uint32_t i = 0; i < 50; ++i) {
    check(windows.shuffled_batch<4>(3, i));
    check(windows.random_batch<4>(3, i));
    check(windows.spread_batch<4>(i, 50));
  }
}

TEST_CASE("any number of workers makes the same batches, and a run may go on at any of them") {
  const counting data({500, 300});
  const gradus::token_windows<std::int32_t, 8> windows(data.sequences);
  std::vector<std::vector<std::int32_t>> alone;
  for (std::uint64_t i = 0; i < 100; ++i) alone.push_back(windows.shuffled_batch<4>(11, i).inputs);
  for (const std::size_t workers : {1u, 2u, 5u}) {
    std::vector<std::vector<std::int32_t>> together(100);
    std::atomic<std::size_t> next = 0;
    std::vector<std::thread> threads;
    for (std::size_t w = 0; w < workers; ++w)
      threads.emplace_back([&] {
        for (std::size_t i; (i = next++) < 100;) together[i] = windows.shuffled_batch<4>(11, i).inputs;
      });
    for (auto& t : threads) t.join();
    CHECK(together == alone);
  }
  const gradus::token_windows<std::int32_t, 8> again(data.sequences);
  CHECK(again.shuffled_batch<4>(11, 57).inputs == alone[57]);
  CHECK(again.shuffled_batch<4>(12, 57).inputs != alone[57]);
}

TEST_CASE("random windows are a pure function of seed, step and part") {
  const counting data({500});
  const gradus::token_windows<std::int32_t, 8> windows(data.sequences);
  const auto batch = windows.random_batch<4>(7, 3);
  CHECK(windows.random_batch<4>(7, 3, 0).inputs == batch.inputs);
  CHECK(windows.random_batch<4>(8, 3).inputs != batch.inputs);
  CHECK(windows.random_batch<4>(7, 4).inputs != batch.inputs);
  CHECK(windows.random_batch<4>(7, 3, 1).inputs != batch.inputs);
  // Two parts of one step are the rows of one batch twice the size.
  auto halves = windows.random_batch<2>(7, 3, 0).inputs;
  const auto second = windows.random_batch<2>(7, 3, 1).inputs;
  halves.insert(halves.end(), second.begin(), second.end());
  CHECK(halves == batch.inputs);
}

TEST_CASE("spread windows cover the text from its first token to its last") {
  const counting data({60, 40});
  const gradus::token_windows<std::int32_t, 8> windows(data.sequences);
  CHECK(windows.spread_batch<2>(0, 3).inputs.front() == 0);
  CHECK(windows.spread_batch<2>(2, 3).targets.back() == 99);
}

TEST_CASE_TEMPLATE("tokens of one, two or four bytes give batches of any type", T, std::uint8_t, std::uint16_t,
                   std::int32_t) {
  const std::vector<T> tokens{1, 2, 3, 4, 5};
  const gradus::token_windows<std::uint8_t, 4> bytes({{tokens, "text"}});
  const gradus::token_windows<std::int32_t, 4> wide({{tokens, "text"}});
  CHECK(bytes.random_batch<1>(1, 0).inputs == std::vector<std::uint8_t>{1, 2, 3, 4});
  CHECK(wide.random_batch<1>(1, 0).targets == std::vector<std::int32_t>{2, 3, 4, 5});
}

TEST_CASE("random windows reach every place of every sequence") {
  const counting data({12, 10});
  const gradus::token_windows<std::int32_t, 8> windows(data.sequences);
  std::set<std::int32_t> starts;
  for (std::uint32_t step = 0; step < 300; ++step) starts.insert(windows.random_batch<1>(1, step).inputs[0]);
  CHECK(starts == std::set<std::int32_t>{0, 1, 2, 3, 12, 13});
}

TEST_CASE("a shuffle is a bijection, whatever the count, and differs by its key") {
  std::mt19937 random(gradus_test::fresh_seed());
  for (const std::uint64_t count : {1u, 2u, 3u, 4u, 5u, 16u, 17u, 1000u, 1u + static_cast<unsigned>(random() % 5000)}) {
    const gradus::random_key key{random(), 0, 0, gradus::random_domain::data};
    std::set<std::uint64_t> images;
    for (std::uint64_t i = 0; i < count; ++i) images.insert(gradus::detail::shuffled(i, count, key));
    CHECK(images.size() == count);
    CHECK(*images.rbegin() == count - 1);
  }
  std::size_t moved = 0, same = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const auto a = gradus::detail::shuffled(i, 1000, {.seed = 1}), b = gradus::detail::shuffled(i, 1000, {.seed = 2});
    moved += a != i;
    same += a == b;
  }
  CHECK(moved > 900);
  CHECK(same < 100);
  // Far more elements than fit into memory.
  const std::uint64_t huge = (std::uint64_t{1} << 40) + 12345;
  for (std::uint64_t i = 0; i < 100; ++i)
    CHECK(gradus::detail::shuffled(huge - 1 - i, huge, {.seed = random()}) < huge);
}

TEST_CASE("neighbours in a shuffle are no neighbours in the text more often than by chance") {
  std::mt19937 random(gradus_test::fresh_seed());
  const std::uint64_t count = 4096;
  const gradus::random_key key{random(), 0, 0, gradus::random_domain::data};
  std::size_t near = 0, low = 0;
  for (std::uint64_t i = 0; i + 1 < count; ++i) {
    const auto a = gradus::detail::shuffled(i, count, key), b = gradus::detail::shuffled(i + 1, count, key);
    near += (a > b ? a - b : b - a) < 41;  // by chance 2 %
    low += i < count / 2 && a < count / 2;
  }
  CHECK(near > 20);
  CHECK(near < 200);
  CHECK(low > 850);  // by chance 1024
  CHECK(low < 1200);
}

TEST_CASE("the end of all tokens is for validation, cut across sequences") {
  const auto front = [](const sequence& s) {
    return s.visit([](auto t) { return static_cast<std::int32_t>(t.front()); });
  };
  const auto back = [](const sequence& s) {
    return s.visit([](auto t) { return static_cast<std::int32_t>(t.back()); });
  };
  const counting data({100, 100, 100});
  const auto parts = gradus::split_sequences(data.sequences, 8, 0.5);
  REQUIRE(parts.train.size() == 2);
  REQUIRE(parts.validation.size() == 2);
  CHECK(back(parts.train[1]) == 149);
  CHECK(front(parts.validation[0]) == 150);
  CHECK(parts.validation[0].name() == "shard 1");
  CHECK(parts.validation[1].size() == 100);
  // A piece that holds no window is left out.
  CHECK(gradus::split_sequences(data.sequences, 8, 0.35).train.size() == 2);
  CHECK(gradus::split_sequences(data.sequences, 8, 0.331).train.size() == 2);
  CHECK_THROWS_WITH_AS(gradus::split_sequences(data.sequences, 100, 0.5), doctest::Contains("too short: of 300 tokens"),
                       gradus::error);
  CHECK_THROWS_AS(gradus::split_sequences(data.sequences, 8, 0.0), gradus::error);
  CHECK_THROWS_AS(gradus::split_sequences({}, 8, 0.5), gradus::error);
}

TEST_CASE("a single text too short for a window in both parts is refused, with the length that would do") {
  const auto split = [](std::size_t size, std::size_t context, double share = 0.1) {
    return gradus::split_sequences(counting({size}).sequences, context, share);
  };
  CHECK(split(1000, 16).train[0].size() == 900);
  CHECK_THROWS_WITH_AS(
      split(1000, 128),
      "shard 0: too short: 1000 tokens; a context of 128 needs at least 1281 where a share of 0.1 is for "
      "validation (--validation)",
      gradus::error);
  CHECK_THROWS_AS(split(1280, 128), gradus::error);
  CHECK_NOTHROW(split(1281, 128));
  CHECK_THROWS_WITH_AS(split(515, 128, 0.75), doctest::Contains("128 needs at least 516"), gradus::error);
  CHECK_NOTHROW(split(516, 128, 0.75));
  CHECK_THROWS_AS(split(0, 1), gradus::error);
}

TEST_CASE("what gives no batch is refused in a line that names it") {
  using windows = gradus::token_windows<std::int32_t, 8>;
  CHECK_THROWS_WITH_AS(windows({}), "token_windows: no sequences are given", gradus::error);
  const counting data({50, 8});
  CHECK_THROWS_WITH_AS(windows(data.sequences), "shard 1: too short: 8 tokens; a window needs 9", gradus::error);
  const counting few({17, 9});
  CHECK_NOTHROW(windows(few.sequences).shuffled_batch<3>(0, 0));
  CHECK_THROWS_WITH_AS(windows(few.sequences).shuffled_batch<4>(0, 0),
                       "shard 0 and the others: too short: 3 windows of 8 tokens; a batch needs 4", gradus::error);
}

TEST_CASE("a token outside the vocabulary is found when a batch would hold it") {
  std::vector<std::uint16_t> tokens(40, 5);
  tokens[21] = 300;
  const gradus::token_windows<std::uint16_t, 8> windows({{tokens, "a.bin"}}, 300);
  CHECK_NOTHROW(windows.spread_batch<1>(0, 2));
  const auto all = [&] {
    for (std::uint64_t i = 0; i < 4; ++i) windows.shuffled_batch<1>(0, i);
  };
  CHECK_THROWS_WITH_AS(all(), "a.bin: token 21 is 300, outside the vocabulary of 300", gradus::error);
  const std::vector<std::int32_t> negative(9, -1);
  CHECK_THROWS_WITH_AS((gradus::token_windows<std::int32_t, 8>({{negative, "b"}}).random_batch<1>(0, 0)),
                       doctest::Contains("b: token 0 is -1, outside"), gradus::error);
  CHECK_NOTHROW((gradus::token_windows<std::uint16_t, 8>({{tokens, "a.bin"}}).random_batch<4>(0, 0)));
  // Where batches have smaller numbers than the vocabulary, some would be others.
  CHECK_NOTHROW(gradus::token_windows<std::uint8_t, 8>({{tokens, "a.bin"}}, 256));
  CHECK_THROWS_WITH_AS((gradus::token_windows<std::uint8_t, 8>({{tokens, "a.bin"}}, 257)),
                       "token_windows: a vocabulary of 257 does not fit into tokens of 1 byte", gradus::error);
}

TEST_CASE("an epoch of samples has each one once, with its target, in an order of its own; the last batch is smaller") {
  const std::uint64_t seed = gradus_test::fresh_seed();
  for (const std::size_t n : {1u, 5u, 32u, 103u})
    for (const std::size_t size : {1u, 8u, 200u}) {
      const auto samples = counted_samples(n, {.batch = size});
      REQUIRE(samples.samples() == n);
      REQUIRE(samples.batches() == (n + size - 1) / size);
      std::set<std::vector<std::int32_t>> orders;
      for (std::uint64_t epoch = 0; epoch < 5; ++epoch) {
        std::vector<std::int32_t> order;
        for (std::uint64_t i = 0; i < samples.batches(); ++i) {
          const auto batch = samples.shuffled_batch(seed, epoch * samples.batches() + i);
          REQUIRE(batch.rows() == std::min(size, n - i * size));
          REQUIRE(batch.inputs.extents == std::vector<std::size_t>{batch.rows(), 2});
          REQUIRE(batch.targets.extents == std::vector<std::size_t>{batch.rows()});
          REQUIRE(batch.inputs.values.size() == 2 * batch.rows());
          for (std::size_t row = 0; row < batch.rows(); ++row) {
            const auto first = static_cast<float>(2 * batch.targets.values[row]);
            CHECK(batch.inputs.values[2 * row] == first);
            CHECK(batch.inputs.values[2 * row + 1] == first + 1);
          }
          order.insert(order.end(), batch.targets.values.begin(), batch.targets.values.end());
        }
        orders.insert(order);
        std::ranges::sort(order);
        for (std::size_t i = 0; i < n; ++i) CHECK(order[i] == static_cast<std::int32_t>(i));
      }
      if (n >= 32) CHECK(orders.size() == 5);
    }
}

TEST_CASE("samples in order begin again after an epoch; a last batch that is dropped is never seen") {
  const auto samples = counted_samples(5, {.batch = 2});
  CHECK(samples.batch(2).targets.values == std::vector<std::int32_t>{4});
  CHECK(samples.batch(4).targets.values == std::vector<std::int32_t>{2, 3});
  const auto full = counted_samples(5, {.batch = 2, .drop_last = true});
  CHECK(full.batches() == 2);
  std::set<std::int32_t> seen;
  for (std::uint64_t i = 0; i < 40; ++i) {
    const auto batch = full.shuffled_batch(1, i);
    CHECK(batch.rows() == 2);
    seen.insert(batch.targets.values.begin(), batch.targets.values.end());
  }
  CHECK(seen.size() == 5);  // no sample is left out for good
}

TEST_CASE("a prefetcher makes the batches of samples on any number of threads") {
  const auto samples = counted_samples(103, {.batch = 8});
  const auto make = [&](std::uint64_t number) { return samples.shuffled_batch(7, number); };
  for (const std::size_t workers : {0u, 3u}) {
    gradus::prefetcher batches(make, {.first = 20, .workers = workers, .ahead = 3});
    for (std::uint64_t number = 20; number < 50; ++number)
      CHECK(batches.next().targets.values == make(number).targets.values);
  }
  CHECK(make(20).targets.values != samples.shuffled_batch(8, 20).targets.values);
}

TEST_CASE("samples that do not match are refused in one line") {
  using gradus_test::message_of;
  const auto said = [](std::vector<std::size_t> inputs, std::vector<std::size_t> targets, std::size_t size,
                       const gradus::sample_batch_options& options) {
    const std::vector<float> values(size);
    return message_of([&] { gradus::sample_batches<float, float>({inputs, values}, {targets, values}, options); });
  };
  CHECK(said({4}, {2, 2}, 4, {}) == "sample_batches: 4 inputs and 2 targets; their numbers must be equal");
  CHECK(said({4}, {4}, 3, {}) == "sample_batches: the inputs: 3 values for the extents [4]");
  CHECK(said({3}, {4}, 3, {}) == "sample_batches: the targets: 3 values for the extents [4]");
  CHECK(said({}, {1}, 1, {}) == "sample_batches: the inputs or targets have no axis of samples");
  CHECK(said({0, 3}, {0}, 0, {}) == "sample_batches: there are no samples");
  CHECK(said({4}, {4}, 4, {.batch = 0}) == "sample_batches: a batch of 0 samples; it must be 1 or more");
  CHECK(said({4}, {4}, 4, {.batch = 5, .drop_last = true}) ==
        "sample_batches: 4 samples are fewer than a batch of 5, and the last batch is dropped");
}
