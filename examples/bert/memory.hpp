#pragma once
// The memory of a run, decided before it starts.

#include <cstddef>
#include <vector>

#include <gradus/plan/step_summary.hpp>

#include "config.hpp"
#include "options.hpp"
#include "training.hpp"

namespace bert {

/// The plans, which share one workspace.
enum planned_work : std::size_t { training_plan, evaluation_plan };

struct chosen_memory {
  gr::region_schedule regions;         ///< what backward recomputes
  gr::step_summary step;               ///< a training step's memory and arithmetic
  std::vector<gr::memory_plan> plans;  ///< by `planned_work`
  std::size_t workspace_bytes = 0;

  std::size_t total_bytes() const { return step.persistent_bytes + workspace_bytes; }
};

/// What a trainer is asked for, as its steps see it.
gr::training_options step_of(const options& o, gr::region_schedule regions = {});

/// Plans the memory that --checkpoint and --memory-budget ask for; allocates nothing. Throws gr::error for a budget
/// that is not possible.
chosen_memory choose_memory(const options& o);

/// Prints the plan.
void print_memory(const chosen_memory& m);

}  // namespace bert
