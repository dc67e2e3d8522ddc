#include <doctest/doctest.h>

#include <cstddef>

#include <gradus/core/error.hpp>

#include "../support/seed.hpp"
#include "gpt/token_budget.hpp"

namespace gr = gradus;

TEST_CASE("batches come as near to a number of tokens as they can") {
  CHECK(gpt::batches_for(2048, 16, 128) == 1);
  CHECK(gpt::batches_for(1, 16, 128) == 1);
  CHECK(gpt::batches_for(3071, 16, 128) == 1);
  CHECK(gpt::batches_for(3072, 16, 128) == 2);
  CHECK(gpt::batches_for(524288, 8, 1024) == 64);
}

TEST_CASE(
    "tokens are split into batches of one size, none above the largest, and no sequence is missed where that can be") {
  const auto split = [](std::size_t tokens, std::size_t context, std::size_t largest) {
    const gpt::token_split s = gpt::split_tokens(tokens, context, largest);
    return std::pair(s.batch, s.accumulate);
  };
  CHECK(split(524288, 1024, 8) == std::pair<std::size_t, std::size_t>(8, 64));
  CHECK(split(524288, 1024, 11) == std::pair<std::size_t, std::size_t>(8, 64));
  CHECK(split(524288, 1024, 4096) == std::pair<std::size_t, std::size_t>(512, 1));
  CHECK(split(17 * 128, 128, 16) == std::pair<std::size_t, std::size_t>(9, 2));  // a prime: one more than asked
  CHECK(split(10, 128, 16) == std::pair<std::size_t, std::size_t>(1, 1));
  CHECK(split(100 * 128, 128, 1) == std::pair<std::size_t, std::size_t>(1, 100));
  CHECK_THROWS_AS(gpt::split_tokens(10, 10, 0), gr::error);
  for (int round = 0; round < 200; ++round) {
    const std::size_t sequences = 1 + gradus_test::fresh_seed() % 5000, largest = 1 + gradus_test::fresh_seed() % 100;
    const gpt::token_split s = gpt::split_tokens(sequences * 32, 32, largest);
    CAPTURE(sequences);
    CAPTURE(largest);
    CHECK(s.batch >= 1);
    CHECK(s.batch <= largest);
    CHECK(s.sequences() >= sequences);
    CHECK(s.sequences() < sequences + s.accumulate);
    CHECK(2 * s.batch >= std::min(largest, sequences));
  }
}

TEST_CASE("the largest batch within a budget takes no more than that, and one sequence more would") {
  const gpt::bytes_by_batch bytes{2, 1000, 70};
  CHECK(bytes.at(2) == 1000);
  CHECK(bytes.at(5) == 1210);
  CHECK(bytes.largest_within(999) == 1);
  CHECK(bytes.largest_within(1000) == 2);
  for (std::size_t budget = 1000; budget < 3000; budget += 17) {
    const std::size_t batch = bytes.largest_within(budget);
    CHECK(bytes.at(batch) <= budget);
    CHECK(bytes.at(batch + 1) > budget);
  }
}
