#pragma once
#include <algorithm>
#include <cstddef>
#include <vector>

#include "../core/error.hpp"

namespace gradus {

/// A way to run one stage so that its backward can follow. Times are in seconds. Temporaries are the most bytes that are there at
/// once while something runs, beyond what was there before and what it leaves as input, output or kept.
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

/// A model as a planner of memory sees it: stages in a row, forward from first to last and backward again. The input of a stage
/// is kept until its backward is done. The gradient of the chain's output counts as there from the start (it is that of a loss).
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

/// What happens to the stages [first, last]. Without inner nodes it is one stage, run by one of its options. With them it is a
/// region: forward keeps nothing but the region's input; backward runs forward again, now as the inner nodes say.
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

namespace detail {

/// Runs a schedule and counts.
class chain_simulation {
 public:
  explicit chain_simulation(const stage_chain& chain) : chain_(chain), live_(chain.input_of(0)) {}

  schedule_cost run(const std::vector<schedule_node>& nodes) {
    make(chain_.output);  // its gradient
    forward_and_backward(nodes, 0, chain_.stages.size());
    return {peak_, time_};
  }

 private:
  // The input of `nodes` is there and stays; the gradient of their output is there and becomes that of their input.
  void forward_and_backward(const std::vector<schedule_node>& nodes, std::size_t begin, std::size_t end) {
    std::size_t next = begin;
    for (const schedule_node& n : nodes) {
      if (n.first != next || n.last < n.first || n.last >= end || (n.inner.empty() && n.first != n.last))
        throw error("chain schedule: its nodes do not cover the stages of the chain in order");
      next = n.last + 1;
      forward(n);
    }
    if (next != end) throw error("chain schedule: its nodes do not cover the stages of the chain in order");
    drop(chain_.input_of(end));  // the output: nobody needs it again
    for (auto n = nodes.rbegin(); n != nodes.rend(); ++n) {
      backward(*n);
      if (n->first != begin) drop(chain_.input_of(n->first));
    }
  }
  void forward(const schedule_node& n) {
    if (n.inner.empty()) {
      const chain_option& o = chain_.stages[n.first].options.at(n.option);
      make(o.kept);
      forward_stage(n.first, o.forward_temporaries);
      return;
    }
    for (std::size_t s = n.first; s <= n.last; ++s) {
      forward_stage(s, chain_.stages[s].forward_temporaries);
      if (s != n.first) drop(chain_.input_of(s));
    }
  }
  void forward_stage(std::size_t s, std::size_t temporaries) {
    make(chain_.input_of(s + 1));
    make(temporaries);
    drop(temporaries);
    time_ += chain_.stages[s].forward_time;
  }
  void backward(const schedule_node& n) {
    if (!n.inner.empty()) return forward_and_backward(n.inner, n.first, n.last + 1);
    const chain_stage& s = chain_.stages[n.first];
    const chain_option& o = s.options[n.option];
    make(o.backward_temporaries);
    drop(o.backward_temporaries);
    drop(o.kept);
    drop(chain_.input_of(n.first + 1));  // the output's gradient
    live_ += s.input + s.gradients;      // were among the temporaries
    time_ += s.backward_time + o.extra_time;
  }
  void make(std::size_t bytes) {
    live_ += bytes;
    peak_ = std::max(peak_, live_);
  }
  void drop(std::size_t bytes) { live_ -= bytes; }

  const stage_chain& chain_;
  std::size_t live_;
  std::size_t peak_ = 0;
  double time_ = 0;
};

}  // namespace detail

/// What a schedule takes, found by running it step by step. Throws error if it is not a schedule of this chain.
inline schedule_cost simulate(const stage_chain& chain, const chain_schedule& schedule) {
  return detail::chain_simulation(chain).run(schedule.nodes);
}

}  // namespace gradus
