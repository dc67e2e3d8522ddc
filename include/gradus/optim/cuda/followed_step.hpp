#pragma once
#include <cstdint>

#include "../../cuda/followed.hpp"
#include "../step_inputs.hpp"

namespace gradus::cuda_kit {

/// Settings of an optimizer and what its step shares, as kernels get at them.
template <class Rule>
struct followed_step {
  Rule rule;  ///< these two as they were when the step was launched or captured
  step_inputs in;
  const Rule* rule_now;        ///< null: `rule`
  const std::uint32_t* moved;  ///< calls of step since `in` was made; null: none

  /// What to go by in this launch. Who needs it once should have one thread ask: it is a lot for the registers of all.
  struct present {
    Rule rule;
    step_inputs in;
  };
  __device__ present now() const {
    present p{rule_now == nullptr ? rule : *rule_now, in};
    p.in.steps += static_cast<double>(static_cast<std::int32_t>(calls()));  // who resumes sets them back
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
/// `rule` must be the optimizer's own, and stay where it is.
template <class Rule>
followed_step<Rule> follow(context<cuda>& ctx, const Rule& rule, const step_inputs& in) {
  followed_values* const values = ctx.stream().followed();
  if (values == nullptr) return {rule, in, nullptr, nullptr};
  return {rule, in, values->of(rule), values->moved(in.calls)};
}

}  // namespace gradus::cuda_kit
