// The memory of each rank, whatever the ranks share, is planned to the byte.
#include <doctest/doctest.h>

#include <mutex>

#include <gradus/ranks/cpu/tree_sum.hpp>
#include <gradus/ranks/thread_communicator.hpp>

#include "planned_step.hpp"

namespace gr = gradus;

namespace {

// Large enough for shares of 4096 elements.
constexpr gpt::config wide{3, 3, 72, 13, 61};

struct used {
  std::size_t persistent, peak, states;
};

template <class P, template <class, class, class> class Optimizer>
used check_rank(gr::communicator<gr::cpu>& ranks, gr::training_options o, std::mutex& checking) {
  using planned_step::batch, planned_step::data;
  using on_cpu = gpt::training<gr::cpu, wide, batch, std::uint8_t, P, Optimizer>;
  using on_meta = gpt::training<gr::meta, wide, batch, std::uint8_t, P, Optimizer>;
  std::vector<std::size_t> order;
  o.learned_order = &order;
  gr::trace_step<on_meta>(o);
  o.learned_order = nullptr;
  o.group_order = order;
  const gr::step_trace trace = gr::trace_step<on_meta>(o);
  const gr::step_summary plan = gr::summarize(trace);
  gr::stream stream;
  gr::host_resource heap;
  gr::stats_resource kept(heap);
  gr::planned_resource planned(gr::make_plan(trace), heap, stream);
  gr::stats_resource used_by_steps(planned);
  gr::context persistent{stream, kept};
  gr::context transient{stream, used_by_steps};
  on_cpu t(persistent, transient, o, &ranks);
  for (std::uint32_t step = 0; step < 3; ++step) {
    used_by_steps.reset_peak();
    const std::size_t before = used_by_steps.all().allocations;
    for (int i = 0; i < o.batches_here(); ++i) {
      const data d(step * static_cast<std::uint32_t>(o.accumulate) + static_cast<std::uint32_t>(t.number_of(i)));
      t.load(i, d.inputs.data(), d.targets.data());
      t.backward(i);
    }
    t.update();
    const std::lock_guard alone(checking);
    planned.check();
    CHECK(planned.live_blocks() == 0);
    CHECK(kept.all().live == plan.persistent_bytes);
    CHECK(kept.all().live + used_by_steps.all().peak == plan.peak_bytes);
    CHECK(used_by_steps.all().allocations - before == plan.requests);
  }
  return {plan.persistent_bytes, plan.peak_bytes, kept.of(gr::category::optimizer_state).live};
}

template <class P, template <class, class, class> class Optimizer = gr::adamw>
void check() {
  for (const int count : {1, 2, 4})
    for (const auto shard :
         {gr::sharding::nothing, gr::sharding::states, gr::sharding::gradients, gr::sharding::parameters})
      for (const int leaves : {4, 8}) {
        CAPTURE(count);
        CAPTURE(static_cast<int>(shard));
        CAPTURE(leaves);
        std::mutex checking;
        gr::run_ranks(static_cast<gr::index_t>(count), [&](gr::communicator<gr::cpu>& ranks) {
          gr::training_options o{.dropout = 0.1, .accumulate = 8, .ranks = count, .leaves = leaves, .shard = shard};
          o.rank = static_cast<int>(ranks.rank());
          if (leaves == 8) o.regions = gr::region_schedule::every_block(wide.layers);
          check_rank<P, Optimizer>(ranks, o, checking);
        });
      }
}

}  // namespace

TEST_CASE("each rank's memory is planned, whatever the ranks share") {
  SUBCASE("fp32") { check<gr::fp32>(); }
  SUBCASE("bf16_mixed, Muon") { check<gr::bf16_mixed, gr::muon>(); }
}
