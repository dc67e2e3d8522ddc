#pragma once
// The memory of a run, decided before it starts: which activations are kept, and the address of every block of a step.

#include <cstdio>
#include <string>
#include <vector>

#include <gradus/plan/step_summary.hpp>
#include <gradus/plan/time_table.hpp>
#include <gradus/train/model_training.hpp>

#include "config.hpp"
#include "options.hpp"

namespace gpt {

constexpr double mib(std::size_t bytes) { return static_cast<double>(bytes) / (1 << 20); }
/// A line of a report, formatted by printf.
template <class... Values>
std::string line(const char* format, Values... values) {
  char text[256];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

/// The plans, which share one workspace; the last reads all parameters, if ranks share them.
enum planned_work : std::size_t { training_plan, evaluation_plan, reading_plan };

struct chosen_memory {
  gr::region_schedule regions;
  std::vector<std::size_t> group_order;  ///< in which a step gathers parameters that ranks share
  gr::step_trace step;                   ///< a training step's requests, in order
  gr::step_summary plan;                 ///< its totals
  std::vector<std::size_t> offsets;      ///< of its blocks in the workspace
  std::vector<gr::memory_plan> plans;    ///< by `planned_work`
  std::size_t workspace_bytes = 0;
  std::size_t file_bytes = 0;      ///< optimizer states in the file of --offload, which persistent_bytes leaves out
  std::size_t resident_bytes = 0;  ///< of them, what an update has in memory at a time
  double step_seconds = 0;         ///< predicted
  std::string description;         ///< what is kept and what is recomputed

  std::size_t total_bytes() const { return plan.persistent_bytes + resident_bytes + workspace_bytes; }
};

/// What a trainer is asked for, as its steps see it.
gr::training_options step_of(const options& o, gr::region_schedule regions = {},
                             std::vector<std::size_t> group_order = {});

/// The number of values that are trained.
std::size_t trained_parameters(const gr::training_options& step);

/// Plans the memory that --checkpoint and --memory-budget ask for; allocates nothing. `machine_flops` is the machine's
/// rate in matrix products, `link` what copies to the host's memory. Throws gr::bad_flag for a policy or a budget that
/// is not possible.
chosen_memory choose_memory(const options& o, double machine_flops, const gr::host_link& link);

/// Memory of a process besides its plan and the text: the program, its libraries, its threads and the plan itself.
/// Measured: 7 MiB on one thread, 12 MiB with 100 micro-batches a step.
inline constexpr std::size_t process_bytes = std::size_t{12} << 20;

/// Writes the picture of a step's memory, planned and (unless null) measured, if a file is named.
void write_report(const std::string& file, const chosen_memory& m, const gr::step_trace* measured);

/// What --offload keeps where.
std::string offload_line(const chosen_memory& m);
/// Prints the plan, and what comes on top of it.
void print_memory(const chosen_memory& m);
/// Prints a line about the memory of rank o.rank.
void print_rank(const options& o, const chosen_memory& m);

}  // namespace gpt
