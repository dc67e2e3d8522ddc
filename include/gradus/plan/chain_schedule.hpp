#pragma once
#include <cstddef>
#include <vector>

namespace gradus {

/// A way to run one stage so that its backward can follow. Times are in seconds. Temporaries are the most bytes that
/// are there at once while something runs, beyond what was there before and what it leaves as input, output or kept.
struct chain_option {
  std::size_t kept = 0;                  ///< bytes kept for backward, beyond the stage's input and output
  double extra_time = 0;                 ///< of backward, to compute again what is not kept
  std::size_t forward_temporaries = 0;   ///< of forward
  std::size_t backward_temporaries = 0;  ///< all that backward makes, the gradients that it leaves included
};

/// One stage of a chain: a function of the output of the stage before it.
struct chain_stage {
  std::size_t input = 0;                ///< bytes of its input, and of that input's gradient
  double forward_time = 0;              ///< of forward, whatever is kept
  double backward_time = 0;             ///< of backward when all is kept
  std::size_t forward_temporaries = 0;  ///< of forward when nothing is kept
  std::size_t gradients = 0;            ///< bytes of its parameters' gradients, which backward leaves behind
  std::vector<chain_option> options;    ///< at least one
};

/// A model as a planner of memory sees it: stages in a row, forward from first to last and backward again. The input of
/// a stage is kept until its backward is done. The gradient of the chain's output counts as there from the start (it is
/// that of a loss).
struct stage_chain {
  std::vector<chain_stage> stages;
  std::size_t output = 0;  ///< bytes of the last stage's output

  std::size_t input_of(std::size_t stage) const { return stage < stages.size() ? stages[stage].input : output; }
  /// Seconds of a step that computes nothing again.
  double time() const {
    double sum = 0;
    for (const chain_stage& s : stages) sum += s.forward_time + s.backward_time;
    return sum;
  }
};

/// What happens to the stages [first, last]. Without inner nodes it is one stage, run by one of its options. With them
/// it is a region: forward keeps nothing but the region's input; backward runs forward again, now as the inner nodes
/// say.
struct schedule_node {
  std::size_t first = 0, last = 0;
  std::size_t option = 0;
  std::vector<schedule_node> inner = {};
};

/// What a schedule takes: most live bytes, the chain's input included, and seconds.
struct schedule_cost {
  std::size_t peak = 0;
  double time = 0;
};

/// A schedule of a chain: nodes that cover its stages in order.
struct chain_schedule {
  std::vector<schedule_node> nodes;
  schedule_cost predicted;
};

}  // namespace gradus
