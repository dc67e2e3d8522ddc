#pragma once
// A chain of stages and its recompute schedules, as data.

#include <cstddef>

#include "../core/vector.hpp"

namespace gradus {

/// What a stage keeps for backward, and what that costs. Times are in seconds. Temporaries are the peak of live bytes
/// during a phase, without those live before it and those that it leaves as input, output or kept.
struct chain_option {
  std::size_t kept = 0;                  ///< bytes kept for backward, without the stage's input and output
  double extra_time = 0;                 ///< of backward, for recomputing the rest
  std::size_t forward_temporaries = 0;   ///< of forward
  std::size_t backward_temporaries = 0;  ///< of backward, including the gradients that it leaves
};

/// One stage of a chain: a function of the output of the stage before it.
struct chain_stage {
  std::size_t input = 0;                 ///< bytes of its input, and of that input's gradient
  double forward_time = 0;               ///< of forward, with every option
  double backward_time = 0;              ///< of backward if all is kept
  std::size_t forward_temporaries = 0;   ///< of forward if nothing is kept
  std::size_t gradients = 0;             ///< bytes of its parameters' gradients, which backward leaves
  detail::vector<chain_option> options;  ///< at least one
};

/// Stages that run forward from first to last and backward from last to first. The input of a stage lives until its
/// backward ends. The gradient of the chain's output counts as live from the start, whenever the loss computes it.
struct stage_chain {
  detail::vector<chain_stage> stages;
  std::size_t output = 0;  ///< bytes of the last stage's output

  std::size_t input_of(std::size_t stage) const { return stage < stages.size() ? stages[stage].input : output; }
  /// Seconds of a step that recomputes nothing.
  double time() const {
    double sum = 0;
    for (const chain_stage& s : stages) sum += s.forward_time + s.backward_time;
    return sum;
  }
};

/// How the stages [first, last] run. Without inner nodes: one stage, by one of its options. With them, a region:
/// forward keeps the region's input alone, and backward first repeats forward by the inner nodes.
struct schedule_node {
  std::size_t first = 0, last = 0;
  std::size_t option = 0;
  detail::vector<schedule_node> inner = {};
};

/// Peak of live bytes, with the chain's input, and seconds.
struct schedule_cost {
  std::size_t peak = 0;
  double time = 0;
};

/// A recompute schedule of a chain: nodes that cover its stages in order.
struct chain_schedule {
  detail::vector<schedule_node> nodes;
  schedule_cost predicted;
};

}  // namespace gradus
