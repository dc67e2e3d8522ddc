#include "memory.hpp"

#include <algorithm>
#include <cstdio>
#include <utility>

#include <gradus/planning.hpp>
#include <gradus/report/memory_table.hpp>
#include <gradus/report/progress.hpp>

namespace bert {
namespace {

using planned = training<planned_device, sizes, batch_size, sequence_length, precision, optimizer>;

gr::region_schedule regions_for(const options& o) {
  if (!o.memory_budget.empty())
    return gr::recompute_schedule<planned>(gr::parse_bytes(o.memory_budget), step_of(o)).regions;
  if (o.checkpoint == "blocks") return gr::region_schedule::every_block(sizes.layers);
  if (o.checkpoint == "matmul")
    return gr::every_block(gr::survey_blocks<planned>(step_of(o)), gr::save_only<gr::op::matmul>{});
  return {};
}

}  // namespace

gr::training_options step_of(const options& o, gr::region_schedule regions) {
  return {.dropout = o.dropout,
          .clip = o.clip,
          .accumulate = o.accumulate,
          .seed = o.seed,
          .adamw = {.lr = o.lr, .beta2 = 0.999, .weight_decay = o.weight_decay},
          .regions = std::move(regions)};
}

chosen_memory choose_memory(const options& o) {
  chosen_memory m;
  m.regions = regions_for(o);
  const gr::training_options step = step_of(o, m.regions);
  const gr::step_trace trace = gr::trace_step<planned>(step);
  m.step = gr::summarize(trace);
  m.plans.push_back(gr::make_plan(trace));
  m.plans.push_back(gr::make_plan(gr::trace<planned>([](planned& t) { t.evaluate({}); }, step)));
  for (const gr::memory_plan& p : m.plans) m.workspace_bytes = std::max(m.workspace_bytes, p.bytes);
  return m;
}

void print_memory(const chosen_memory& m) {
  std::printf("%s, batch %zu\n%s\n", describe_model().c_str(), std::size_t{batch_size},
              gr::memory_table(m.step, gr::output_columns()).c_str());
  std::printf("planned: %zu bytes of parameters and optimizer state, a workspace of %zu bytes, %zu bytes in all\n",
              m.step.persistent_bytes, m.workspace_bytes, m.total_bytes());
}

}  // namespace bert
