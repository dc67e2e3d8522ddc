// Checkpointing a GPT changes memory and time, and not one bit of what it learns.
#include "checkpoint.hpp"

#include <doctest/doctest.h>

namespace gr = gradus;
using gradus_test::check_all;
using gradus_test::train;

TEST_CASE(
    "losses, gradients and weights of three steps with dropout are the same bits under every schedule and thread "
    "count") {
  check_all<gpt::config{4, 3, 39, 13, 61}, 3>();
  check_all<gpt::config{3, 4, 128, 64, 250}, 6>();
}

TEST_CASE("a schedule for another number of blocks is refused") {
  CHECK_THROWS_WITH_AS(
      (train<gpt::config{2, 1, 8, 4, 11}, 1>(gr::region_schedule::every_block(3), 1)),
      "chain(blocks, x, schedule, f): the schedule's parts do not cover the chain's 2 blocks in order; it "
      "was made for another model",
      gr::error);
}

TEST_CASE("regions nest as deep as max_depth says, also around one block, and no deeper") {
  const auto run = [](const gr::region_schedule& s) { return train<gpt::config{2, 1, 8, 4, 11}, 1>(s, 1); };
  const gr::chain_part kept{0, 0, true, 5};
  gr::region_schedule s;
  s.parts = {{0, 0, true, 0, {kept}}, {1, 1, false}};
  CHECK(run(s) == run({}));
  for (gr::index_t depth = 1; depth <= gr::region_schedule::max_depth; ++depth)
    s.parts[0] = {0, 0, true, 0, {s.parts[0]}};
  CHECK_THROWS_WITH_AS(
      run(s), "chain(blocks, x, schedule, f): the schedule nests regions deeper than region_schedule::max_depth",
      gr::error);
}
