#include "gpt_cases.hpp"

#include <gradus/plan/placement.hpp>
#include <gradus/plan/step_summary.hpp>

#include "on_cpu.hpp"

std::vector<record> gpt_on_cpu(unsigned seed) {
  return on_cpu(seed, [](auto& r) { gpt_cases(r); });
}
gr::memory_plan plan_of_gpt(bool recompute) {
  return gr::make_plan(gr::trace_step<gpt_training<gr::bf16_mixed, gr::cuda_meta>>(recompute));
}
