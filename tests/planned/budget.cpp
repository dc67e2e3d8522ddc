// Budgets of a GPT are compared with what its blocks take where they are placed.
#include <doctest/doctest.h>

#include <gradus/planning.hpp>

#include "gpt/training.hpp"

namespace gr = gradus;

namespace {

// Its blocks do not pack without gaps under every schedule.
constexpr gpt::config uneven{.layers = 3, .heads = 3, .width = 192, .context = 100, .vocabulary = 256};
using on_meta = gpt::training<gr::meta, uneven, 5>;

std::size_t placed_bytes(gr::region_schedule regions) {
  gr::training_options o;
  o.regions = std::move(regions);
  const gr::step_trace trace = gr::trace_step<on_meta>(o);
  return trace.live_before + gr::make_plan(trace).bytes;
}

}  // namespace

TEST_CASE(
    "no policy for all blocks takes less than the least budget that is feasible, and a step within it takes no more") {
  const gr::recompute_scheduler<on_meta, gr::training_options> search(gr::training_options{});
  const std::size_t least = search.least_budget();
  CHECK(placed_bytes(search.within(least).regions) == least);
  CHECK_FALSE(search.find_within(least - 1));
  const std::size_t blocks = placed_bytes(gr::region_schedule::every_block(uneven.layers));
  CHECK(least <= blocks);
  CHECK(search.within(blocks).summary.recomputed_flops() <=
        gr::summarize_step<on_meta>(gr::training_options{.regions = gr::region_schedule::every_block(uneven.layers)})
            .recomputed_flops());
  for (std::uint64_t keep = 0; keep < 1024; keep += 31)
    CHECK(least <= placed_bytes(gr::region_schedule::every_block(uneven.layers, keep)));
}

TEST_CASE("whatever the budget, the blocks of the schedule found fit into it where they are placed") {
  const gr::recompute_scheduler<on_meta, gr::training_options> search(gr::training_options{});
  const std::size_t least = search.least_budget(), most = placed_bytes({});
  double before = search.within(least).seconds;
  for (std::size_t n = 0; n <= 20; ++n) {
    const std::size_t budget = least + (most - least) * n / 20;
    CAPTURE(budget);
    const gr::scheduled_step found = search.within(budget);
    CHECK(placed_bytes(found.regions) <= budget);
    CHECK(found.seconds <= before * 1.05);
    before = found.seconds;
  }
  CHECK(search.within(most).summary.recomputed_flops() == 0);
}
