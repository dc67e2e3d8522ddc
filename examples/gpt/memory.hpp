#pragma once
// How a run uses memory, decided before it starts: which activations are kept, and where every block of a step will
// lie.

#include <string>
#include <vector>

#include <gradus/plan/step_summary.hpp>

#include "config.hpp"
#include "options.hpp"

namespace gpt {

/// The work whose plans share one workspace.
enum planned_work : std::size_t { training_plan, evaluation_plan };

struct chosen_memory {
  gr::region_schedule regions;
  gr::step_trace step;                 ///< a training step's requests, in order
  gr::step_summary plan;               ///< its totals
  std::vector<std::size_t> offsets;    ///< where its blocks lie in the workspace
  std::vector<gr::memory_plan> plans;  ///< by `planned_work`
  std::size_t workspace_bytes = 0;     ///< that they share
  double step_seconds = 0;             ///< predicted
  std::string description;             ///< of what is kept and what is computed again

  std::size_t total_bytes() const { return plan.persistent_bytes + workspace_bytes; }
};

/// What --checkpoint and --memory-budget ask for. Nothing is allocated and nothing trained. `machine_flops` is what the
/// machine reaches in matrix products. Throws bad_flag for a policy or a budget that cannot be.
chosen_memory choose_memory(const options& o, double machine_flops);

/// What a process needs besides its plan and the text: the program, its libraries, its threads and the plan itself.
/// Measured as 7 MiB on one thread and 12 MiB with 100 batches a step.
inline constexpr std::size_t process_bytes = std::size_t{12} << 20;

/// Writes the picture of a step's memory, planned and (unless null) measured, if `file` names one.
void write_report(const std::string& file, const chosen_memory& m, const gr::step_trace* measured);

/// Prints what the chosen memory is made of, and what comes on top.
void print_memory(const chosen_memory& m);

}  // namespace gpt
