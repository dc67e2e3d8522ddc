#pragma once
// checkpoint(f, x...): recomputes a part of a model at backward instead of keeping its activations.

#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "../apply.hpp"
#include "region.hpp"
#include "save_policy.hpp"

namespace gradus {

namespace detail {

// The type of the argument that a region's function gets for an operand X.
template <class Recorder, class X>
struct within_region {
  using type = X;
};
template <class Recorder, class V, class R>
struct within_region<Recorder, traced<V, R>> {
  using type = traced<V, region<Recorder>>;
};
template <class Recorder, class X, index_t... E>
struct within_region<Recorder, param<X, E...>> {
  using type = const param<X, E...>&;
};
template <class Recorder, class X, index_t... E>
struct within_region<Recorder, state<X, E...>> {
  using type = const state<X, E...>&;
};

template <class Output>
struct as_tuple_type {
  using type = Output;
};
template <class A, class B>
struct as_tuple_type<std::pair<A, B>> {
  using type = std::tuple<A, B>;
};

template <class Output>
inline constexpr bool depends_on_arguments = is_traced<Output>;
template <class Recorder, class Output>
inline constexpr bool is_value_of_region = false;
template <class Recorder, class V, class R>
inline constexpr bool is_value_of_region<Recorder, traced<V, R>> = std::is_same_v<R, region<Recorder>>;

template <class Recorder, class Output>
constexpr bool check_result() {
  static_assert(depends_on_arguments<Output>,
                "checkpoint(f, x...): what f returns does not depend on its traced arguments; take it out of f");
  static_assert(is_value_of_region<Recorder, Output> || !is_traced<Output>,
                "checkpoint(f, x...): f uses a traced value that it does not take as an argument; pass it: "
                "checkpoint(f, x, value)");
  return is_value_of_region<Recorder, Output>;
}
// Checked before the region is instantiated, so that messages are short.
template <class Recorder, class F, class... Xs>
constexpr bool check_function() {
  using output = decltype(std::declval<const F&>()(std::declval<typename within_region<Recorder, Xs>::type>()...));
  if constexpr (is_tuple_like<output>) {
    return []<class... Ys>(std::type_identity<std::tuple<Ys...>>) {
      return (check_result<Recorder, Ys>() && ...);
    }(std::type_identity<typename as_tuple_type<output>::type>{});
  } else {
    return check_result<Recorder, output>();
  }
}

// An argument of `f` if no tape records: a parameter remains one, because its policy decides types.
template <class X>
constexpr decltype(auto) plain_argument(X&& x) {
  if constexpr (is_model_tensor<std::remove_cvref_t<X>>) return std::as_const(x);
  else return plain(std::forward<X>(x));
}

}  // namespace detail

/// Runs `f(x...)`, and keeps its arguments and the results that `policy` selects, no others. Backward replays `f`: it
/// recomputes the operations whose outputs it needs and that were not kept, with the same random draws. The gradients
/// have the bits of `f(x...)` alone. On plain operands (inference) it only calls `f`.
///
/// `f` is copied, and called again during backward: parameters and constants that it refers to must still exist, and
/// every traced value must be an argument (a capture does not compile). It returns one traced value or a std::tuple of
/// them. Regions nest. Throws error if the policy names an operation that the region does not apply; for a nested
/// region, whose policy is first asked when the outer region is replayed, backward throws it.
template <save_policy Policy, class F, operand... Xs>
constexpr auto checkpoint(const Policy& policy, F f, Xs&&... xs) {
  using recorder = typename detail::recorder_of<std::remove_cvref_t<Xs>...>::type;
  if constexpr (std::is_void_v<recorder>) {
    auto output = f(detail::plain_argument(std::forward<Xs>(xs))...);
    static_assert(!is_traced<decltype(output)>,
                  "checkpoint(f, x...): f uses a traced value that it does not take as an argument; pass it: "
                  "checkpoint(f, x, value)");
    return output;
  } else {
    constexpr bool from_one_region = (detail::recorded_by<recorder, std::remove_cvref_t<Xs>> && ...);
    static_assert(from_one_region, "checkpoint(f, x...): the arguments belong to different recordings or regions");
    if constexpr (from_one_region && detail::check_function<recorder, F, std::remove_cvref_t<Xs>...>()) {
      detail::policy_of<Policy> what(policy);
      return region<recorder>::enter(detail::find_recorder<recorder>(xs...), what, std::move(f),
                                     std::forward<Xs>(xs)...);
    }
  }
}
/// checkpoint(policy, f, x...) with a policy type: `checkpoint<save_only<op::matmul>>(f, x...)`. By default the region
/// keeps no results.
template <save_policy Policy = save_none, class F, operand... Xs>
  requires(!save_policy<F>)
constexpr auto checkpoint(F f, Xs&&... xs) {
  return checkpoint(Policy{}, std::move(f), std::forward<Xs>(xs)...);
}

namespace op {

/// The identity, with a name that save_named can list.
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

/// x, with a name for save_named: `auto h = gr::named(gelu(up(x)), "hidden")`. `name` must have static storage.
template <operand X>
constexpr auto named(X&& x, std::string_view name) {
  return apply(op::named{name}, std::forward<X>(x));
}

}  // namespace gradus
