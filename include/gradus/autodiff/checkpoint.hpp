#pragma once
// Checkpoint regions: parts of a model whose activations are computed again at backward instead of kept.

#include <string_view>
#include <type_traits>
#include <utility>

#include "apply.hpp"
#include "region.hpp"

namespace gradus {

/// Runs `f(x...)` and keeps for backward the arguments and what `policy` says, no more. At backward the region's operations are
/// applied again, with the same random draws: those whose outputs are needed and were not kept. Gradients are bit for bit those
/// of `f(x...)` alone. Plain operands (inference) pass straight through `f`.
///
/// `f` is copied, and called again during backward: it may refer to parameters and constants, which must still be there, and
/// must take every traced value as an argument (a capture does not compile). It returns one traced value or a std::tuple of
/// them. Regions nest. Throws error when the policy names an operation that the region has not; for a region within another, whose
/// policy is first asked when the outer one is applied again, backward throws it.
template <save_policy Policy, class F, operand... Xs>
constexpr auto checkpoint(const Policy& policy, F f, Xs&&... xs) {
  using recorder = typename detail::recorder_of<std::remove_cvref_t<Xs>...>::type;
  if constexpr (std::is_void_v<recorder>) {
    auto made = f(plain(std::forward<Xs>(xs))...);
    static_assert(!is_traced<decltype(made)>,
                  "checkpoint(f, x...): f uses a traced value that it does not take as an argument; pass it: "
                  "checkpoint(f, x, value)");
    return made;
  } else {
    constexpr bool from_one_region = (detail::recorded_by<recorder, std::remove_cvref_t<Xs>> && ...);
    static_assert(from_one_region, "checkpoint(f, x...): the arguments belong to different recordings or regions");
    if constexpr (from_one_region) {
      detail::policy_of<Policy> what(policy);
      return region<recorder>::enter(detail::find_recorder<recorder>(xs...), what, std::move(f),
                                     std::forward<Xs>(xs)...);
    }
  }
}
/// The same with a policy that is a type alone: `checkpoint<save_only<op::matmul>>(f, x...)`; without one nothing is kept.
template <save_policy Policy = save_none, class F, operand... Xs>
  requires(!save_policy<F>)
constexpr auto checkpoint(F f, Xs&&... xs) {
  return checkpoint(Policy{}, std::move(f), std::forward<Xs>(xs)...);
}

namespace op {

/// The value itself, under a name that a policy can ask for.
struct named {
  std::string_view label;

  static constexpr std::string_view name = "named";
  static constexpr save_rule saves = save_nothing();

  template <class X>
  constexpr X forward(auto, X x) const {
    return x;
  }
  template <class Saved, class Y, class X>
  constexpr void backward(const Saved&, Y dy, const gradient_sink<X>& dx) const {
    if (dx) dx.give(std::move(dy));
  }
};

}  // namespace op

/// x, under a name for save_named: `auto h = gr::named(gelu(up(x)), "hidden")`. `name` must have static storage.
template <operand X>
constexpr auto named(X&& x, std::string_view name) {
  return apply(op::named{name}, std::forward<X>(x));
}

}  // namespace gradus
