#pragma once
// Steps of a small GPT in planned memory, counted above the plan: exact to the byte, whatever policy, optimizer and
// regions.
#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include <gradus/planning.hpp>

#include "gpt/training.hpp"

namespace planned_step {

namespace gr = gradus;

constexpr gpt::config odd{3, 3, 39, 13, 61};
constexpr gr::index_t batch = 5;

struct data {
  std::vector<std::uint8_t> inputs, targets;
  explicit data(std::uint32_t step) : inputs(batch * odd.context), targets(inputs.size()) {
    for (gr::index_t i = 0; i < inputs.size(); ++i) {
      const auto w = gr::random_key{.seed = 3, .step = step}.words(i);
      inputs[i] = static_cast<std::uint8_t>(w[0] % odd.vocabulary);
      targets[i] = static_cast<std::uint8_t>(w[1] % odd.vocabulary);
    }
  }
};

// Plain, with several batches, and under schedules of checkpoint regions.
inline std::vector<gr::training_options> kinds() {
  std::vector<gr::training_options> all(4);
  all[1] = {.dropout = 0.1, .accumulate = 3};
  all[2] = {.dropout = 0.1, .accumulate = 2, .regions = gr::region_schedule::every_block(odd.layers)};
  all[3] = {.accumulate = 2};
  all[3].regions.parts = {{0, 1, true, 0, {{0, 0, true, 5}, {1, 1, false}}}, {2, 2, true, 0b10110}};
  return all;
}

// Steps of a model of sizes C, with the layers, context and vocabulary of `odd`, whose memory is planned, and counted
// above the plan.
template <class P, template <class, class, class> class Optimizer = gr::adamw, auto C = odd>
void check() {
  using on_cpu = gpt::training<gr::cpu, C, batch, std::uint8_t, P, Optimizer>;
  using on_meta = gpt::training<gr::meta, C, batch, std::uint8_t, P, Optimizer>;
  std::size_t number = 0;
  for (const gr::training_options& o : kinds()) {
    CAPTURE(number++);
    const gr::step_trace trace = gr::trace_step<on_meta>(o);
    const gr::step_summary plan = gr::summarize(trace);
    gr::stream stream;
    gr::host_resource heap;
    gr::stats_resource kept(heap);
    gr::planned_resource planned(gr::make_plan(trace), heap, stream);
    gr::stats_resource used(planned);
    gr::context persistent{stream, kept};
    gr::context transient{stream, used};
    on_cpu t(persistent, transient, o);
    for (std::uint32_t step = 0; step < 3; ++step) {
      used.reset_peak();
      const std::size_t before = used.all().allocations;
      const data d(step);
      for (int i = 0; i < o.accumulate; ++i) t.add_batch(d.inputs.data(), d.targets.data());
      t.update();
      planned.check();
      CHECK(planned.live_blocks() == 0);
      CHECK(kept.all().live == plan.persistent_bytes);
      CHECK(kept.all().live + used.all().peak == plan.peak_bytes);
      CHECK(used.all().allocations - before == plan.requests);
      for (std::size_t c = 0; c < gr::category_count; ++c) {
        const auto what = static_cast<gr::category>(c);
        CHECK(kept.of(what).live + used.of(what).peak == plan.peak_by[c]);
      }
    }
  }
}

}  // namespace planned_step
