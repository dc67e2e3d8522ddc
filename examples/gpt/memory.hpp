#pragma once
// How a run uses memory, decided before it starts: which activations are kept, and where every block of a step will lie.

#include <string>
#include <vector>

#include "config.hpp"
#include "options.hpp"

namespace gpt {

/// The sequences of work that take turns in the planned region.
enum turn : std::size_t { train_turn, evaluate_turn, sample_turn };

struct chosen_memory {
  gr::region_schedule regions;
  gr::step_trace step;                 ///< a training step's requests, in order
  gr::step_plan plan;                  ///< its totals
  std::vector<std::size_t> offsets;    ///< where its blocks lie in the region
  std::vector<gr::memory_plan> turns;  ///< by `turn`
  std::size_t region_bytes = 0;        ///< that all of them take turns in
  double step_seconds = 0;             ///< predicted
  std::string description;             ///< of what is kept and what is computed again

  std::size_t total_bytes() const { return plan.resting_bytes + region_bytes; }
};

/// What --checkpoint and --memory-budget ask for. Nothing is allocated and nothing trained. `machine_flops` is what the machine
/// reaches in matrix products. Throws bad_flag for a policy or a budget that cannot be.
chosen_memory choose_memory(const options& o, double machine_flops);

/// Prints what the chosen memory is made of.
void print_memory(const chosen_memory& m);

}  // namespace gpt
