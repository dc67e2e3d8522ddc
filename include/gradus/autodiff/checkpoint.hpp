#pragma once
// Checkpoint regions: parts of a model whose activations are computed again at backward instead of kept.

#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "apply.hpp"
#include "region.hpp"

namespace gradus {

namespace detail {

// What a region's function gets for an operand X.
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

template <class Made>
struct as_tuple_type {
  using type = Made;
};
template <class A, class B>
struct as_tuple_type<std::pair<A, B>> {
  using type = std::tuple<A, B>;
};

template <class Made>
inline constexpr bool depends_on_arguments = is_traced<Made>;
template <class Recorder, class Made>
inline constexpr bool is_of_the_region = false;
template <class Recorder, class V, class R>
inline constexpr bool is_of_the_region<Recorder, traced<V, R>> = std::is_same_v<R, region<Recorder>>;

template <class Recorder, class Made>
constexpr bool check_result() {
  static_assert(depends_on_arguments<Made>,
                "checkpoint(f, x...): what f returns does not depend on its traced arguments; take it out of f");
  static_assert(is_of_the_region<Recorder, Made> || !is_traced<Made>,
                "checkpoint(f, x...): f uses a traced value that it does not take as an argument; pass it: "
                "checkpoint(f, x, value)");
  return is_of_the_region<Recorder, Made>;
}
// Here rather than in the region, for short messages.
template <class Recorder, class F, class... Xs>
constexpr bool check_function() {
  using made = decltype(std::declval<const F&>()(std::declval<typename within_region<Recorder, Xs>::type>()...));
  if constexpr (is_tuple_like<made>) {
    return []<class... Ys>(std::type_identity<std::tuple<Ys...>>) {
      return (check_result<Recorder, Ys>() && ...);
    }(std::type_identity<typename as_tuple_type<made>::type>{});
  } else {
    return check_result<Recorder, made>();
  }
}

// An argument where nothing is recorded: a parameter stays one, with its policy.
template <class X>
constexpr decltype(auto) plain_argument(X&& x) {
  if constexpr (is_param<std::remove_cvref_t<X>>) return std::as_const(x);
  else return plain(std::forward<X>(x));
}

}  // namespace detail

/// Runs `f(x...)` and keeps for backward the arguments and what `policy` says, no more. At backward the region's
/// operations are applied again, with the same random draws: those whose outputs are needed and were not kept.
/// Gradients are bit for bit those of `f(x...)` alone. Plain operands (inference) pass straight through `f`.
///
/// `f` is copied, and called again during backward: it may refer to parameters and constants, which must still be
/// there, and must take every traced value as an argument (a capture does not compile). It returns one traced value or
/// a std::tuple of them. Regions nest. Throws error when the policy names an operation that does not occur in the
/// region; for a region within another, whose policy is first asked when the outer one is applied again, backward
/// throws it.
template <save_policy Policy, class F, operand... Xs>
constexpr auto checkpoint(const Policy& policy, F f, Xs&&... xs) {
  using recorder = typename detail::recorder_of<std::remove_cvref_t<Xs>...>::type;
  if constexpr (std::is_void_v<recorder>) {
    auto made = f(detail::plain_argument(std::forward<Xs>(xs))...);
    static_assert(!is_traced<decltype(made)>,
                  "checkpoint(f, x...): f uses a traced value that it does not take as an argument; pass it: "
                  "checkpoint(f, x, value)");
    return made;
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
/// The same with a policy that is a type alone: `checkpoint<save_only<op::matmul>>(f, x...)`; without one nothing is
/// kept.
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
