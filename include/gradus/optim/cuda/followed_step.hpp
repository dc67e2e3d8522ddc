#pragma once
// The settings and scalars of a step, as kernels in a captured graph read them.

#include <cstdint>

#include "../../gpu/followed.hpp"
#include "../step_inputs.hpp"

namespace gradus::cuda_kit {

/// Settings of an optimizer and the scalars of its step, up to date in every launch of a graph.
template <class Rule>
struct followed_step {
  Rule rule;  ///< `rule` and `in` have the values of the launch, or of the capture
  step_inputs in;
  const Rule* rule_now;        ///< the current rule; null: `rule`
  const std::uint32_t* moved;  ///< calls of step since the capture; null: none

  /// The values of this launch. Kernels should call now() in one thread of a block: the result takes many registers.
  struct present {
    Rule rule;
    step_inputs in;
  };
  __device__ present now() const {
    present p{rule_now == nullptr ? rule : *rule_now, in};
    p.in.steps += static_cast<double>(static_cast<std::int32_t>(calls()));  // below 0 after set_steps
    p.in.key.step += calls();
    return p;
  }
  __device__ random_key key() const {
    random_key k = in.key;
    k.step += calls();
    return k;
  }

 private:
  __device__ std::uint32_t calls() const { return moved == nullptr ? 0 : *moved; }
};
/// `rule` must be the optimizer's own options, at an address that does not change.
template <class Rule>
followed_step<Rule> follow(context<cuda>& ctx, const Rule& rule, const step_inputs& in) {
  followed_values* const values = ctx.stream().followed();
  if (values == nullptr) return {rule, in, nullptr, nullptr};
  return {rule, in, values->of(rule), values->moved(in.calls)};
}

}  // namespace gradus::cuda_kit
