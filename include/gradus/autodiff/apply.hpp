#pragma once
// apply(op, x...): the one way by which operations are applied, whoever records them.

#include <cstddef>
#include <type_traits>
#include <utility>

#include "../core/config.hpp"
#include "call.hpp"
#include "cast.hpp"
#include "operand.hpp"
#include "run.hpp"

namespace gradus {

namespace detail {

// The context that an operation on plain operands runs in: that of the first one that is not a parameter. Parameters are
// persistent, and may lie in a context of their own.
template <class X, class... Rest>
constexpr auto& context_for(const X& x, const Rest&... rest) {
  if constexpr (sizeof...(Rest) > 0 && (is_param<X> || is_computed_param<X>)) return context_for(rest...);
  else return plain(x).owner();
}

template <class Op, class... Xs>
constexpr auto apply_as_is(const Op& op, Xs&&... xs) {
  using recorder = typename recorder_of<std::remove_cvref_t<Xs>...>::type;
  if constexpr (std::is_void_v<recorder>) {
    auto& ctx = context_for(xs...);
    return run<false, Op>(ctx, ctx.current().phase, op, std::forward<Xs>(xs)...);
  } else {
    return find_recorder<recorder>(xs...).record(op, std::forward<Xs>(xs)...);
  }
}

template <class X>
struct raw_compute {
  using type = void;
};
template <class X, index... E>
struct raw_compute<param<X, E...>> {
  using type = typename X::compute;
};

// An operand as type T, by an operation of its own that is recorded where the operand is; a parameter by its lasting copy.
// `others` are all operands.
template <class T, bool Cast, class X, class... Xs>
GRADUS_OF_BUILD constexpr decltype(auto) as_type(X&& x, const Xs&... others) {
  using raw = std::remove_cvref_t<X>;
  if constexpr (!Cast || std::is_same_v<value_of_t<raw>, T>) return std::forward<X>(x);
  else if constexpr (is_param<raw> && std::is_same_v<typename raw_compute<raw>::type, T>) {
    plain(x).check_present();
    return computed_param<raw>{&x, x.computed()};
  } else {
    return apply_as_is(op::cast<T>{}, taken_operand(std::forward<X>(x), others...));
  }
}

template <class T, class Op, std::size_t... I, class... Xs>
constexpr auto apply_cast(const Op& op, std::index_sequence<I...>, Xs&&... xs) {
  return apply_as_is(
      op, as_type < T,
      ((cast_operands_of<Op>() >> I) & 1u) != 0 && is_floating < value_of_t < Xs >>> (std::forward<Xs>(xs), xs...)...);
}

// What the compiler names where operands of a product are of types that do not go together.
template <bool TheyFit, class Op, class... ElementTypes>
inline constexpr bool element_types_fit = TheyFit;

}  // namespace detail

/// Applies an operation. With plain operands it computes and that is all; when an operand is traced, its recorder decides.
/// Operands of products are first cast to what the policy of the parameters among them computes in. Without a parameter, operands
/// of one 16-bit type and of float meet in the 16-bit one; others must be of one type.
template <class Op, operand... Xs>
constexpr auto apply(const Op& op, Xs&&... xs) {
  using recorder = typename detail::recorder_of<std::remove_cvref_t<Xs>...>::type;
  constexpr bool from_one_region = (detail::recorded_by<recorder, std::remove_cvref_t<Xs>> && ...);
  static_assert(from_one_region,
                "checkpoint(f, x...): f uses a traced value that it does not take as an argument; pass it: "
                "checkpoint(f, x, value)");
  if constexpr (from_one_region) {
    using T = typename detail::call_rules<Op, std::remove_cvref_t<Xs>...>::cast;
    constexpr bool fit = !std::is_same_v<T, detail::types_differ>;
    static_assert(detail::element_types_fit<fit, Op, value_of_t<Xs>...>,
                  "matmul, linear, attention: operands must be of one element type, or of float and one 16-bit type");
    if constexpr (std::is_void_v<T>) return detail::apply_as_is(op, std::forward<Xs>(xs)...);
    else if constexpr (fit) return detail::apply_cast<T>(op, std::index_sequence_for<Xs...>{}, std::forward<Xs>(xs)...);
  }
}

/// x with elements of type T, each rounded once: `cast<bf16>(x)`. The gradient is cast back. Of the same type it is x itself.
template <class T, operand X>
GRADUS_OF_BUILD constexpr auto cast(X&& x) {
  static_assert(is_element<T>);
  constexpr bool has_gradient = !is_traced<std::remove_cvref_t<X>> || is_floating<T> || !is_floating<value_of_t<X>>;
  static_assert(has_gradient,
                "cast<T>(x): a recorded floating-point value must stay one; take x.value() out of the recording");
  if constexpr (has_gradient) return apply(op::cast<T>{}, std::forward<X>(x));
}

}  // namespace gradus
