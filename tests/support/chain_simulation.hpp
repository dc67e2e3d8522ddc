#pragma once
// A schedule of a chain, run step by step: what chain_planner's predictions are held against.

#include <algorithm>
#include <cstddef>
#include <gradus/core/error.hpp>
#include <gradus/plan/chain_schedule.hpp>
#include <vector>

namespace gradus_test {

using namespace gradus;

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

/// What a schedule takes, found by running it step by step. Throws error if it is not a schedule of this chain.
inline schedule_cost simulate(const stage_chain& chain, const chain_schedule& schedule) {
  return chain_simulation(chain).run(schedule.nodes);
}

}  // namespace gradus_test
