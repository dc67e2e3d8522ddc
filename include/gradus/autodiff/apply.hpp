#pragma once
// apply(op, x...): checks and casts the operands, then runs the operation, or hands it to the recorder of an operand.

#include <cstddef>
#include <string_view>
#include <type_traits>
#include <utility>

#include "../core/config.hpp"
#include "casting.hpp"
#include "failures.hpp"
#include "forward.hpp"
#include "traced.hpp"

namespace gradus {

namespace detail {

// The context of an operation on plain operands: the first operand's that is not a parameter or state. These are
// persistent, and may have a context of their own.
template <class X, class... Rest>
constexpr auto& context_for(const X& x, const Rest&... rest) {
  if constexpr (sizeof...(Rest) > 0 && (is_model_tensor<X> || is_computed_param<X>)) return context_for(rest...);
  else return plain(x).owner();
}
// context_for(xs...). Throws error if all operands are parameters and another thread uses their context.
template <class Op, class... Xs>
constexpr auto& checked_context_for(const Op& op, const Xs&... xs) {
  auto& ctx = context_for(xs...);
  if constexpr (((is_model_tensor<Xs> || is_computed_param<Xs>)&&...))
    if (!ctx.is_used_by_caller()) fail_other_thread(name_of(op));
  return ctx;
}

template <class Op, class... Xs>
constexpr auto apply_as_is(const Op& op, Xs&&... xs) {
  using recorder = typename recorder_of<std::remove_cvref_t<Xs>...>::type;
  if constexpr (std::is_void_v<recorder>) {
    auto& ctx = checked_context_for(op, xs...);
    return run_unrecorded(ctx, ctx.current().phase, op, std::forward<Xs>(xs)...);
  } else {
    return find_recorder<recorder>(xs...).record(op, std::forward<Xs>(xs)...);
  }
}

template <class X>
struct raw_compute {
  using type = void;
};
template <class X, index_t... E>
struct raw_compute<param<X, E...>> {
  using type = typename X::compute;
};

// True if operand At is a parameter that is not cast to T, because the kernel rounds it as it reads it.
template <class T, class Op, std::size_t At, class X>
constexpr bool is_read_as_stored() {
  if constexpr (is_param<X>) {
    constexpr bool exact_or_rounded = std::is_same_v<typename X::value_type, float> || std::is_same_v<T, float>;
    return exact_or_rounded && X::device::rounds_in_products && !X::policy::precision::keeps_copies &&
           (rounds_operands_of<Op>() >> At & 1u) != 0;
  } else {
    return false;
  }
}

// True if operand At, which the operation does not cast, is a parameter whose copy in T the device needs.
template <class T, class Op, std::size_t At, class X>
constexpr bool is_read_as_copy() {
  if constexpr (is_param<X>)
    return !X::device::rounds_in_products && std::is_same_v<typename X::compute_tensor::value_type, T> &&
           (copied_operands_of<Op>() >> At & 1u) != 0;
  else return false;
}

// Converts an operand to T. A tensor or traced value goes through a recorded `cast`; a parameter uses its cached copy
// in the compute type, or a recorded cast if T is another type. `where` is the recorder of the operands `all`, or their
// context if no tape records them.
template <class T, bool Cast, bool Recorded, class Where, class X, class... Xs>
GRADUS_OF_BUILD constexpr decltype(auto) as_type([[maybe_unused]] Where& where, X&& x, const Xs&... all) {
  using raw = std::remove_cvref_t<X>;
  if constexpr (!Cast || std::is_same_v<value_of_t<raw>, T>) return std::forward<X>(x);
  else if constexpr (is_param<raw> && std::is_same_v<typename raw_compute<raw>::type, T>) {
    plain(x).check_present();
    return computed_param<raw>{&x, x.computed()};
  } else if constexpr (is_model_tensor<raw> && Recorded) {
    return where.record(op::cast<T>{}, std::as_const(x));
  } else if constexpr (is_model_tensor<raw>) {
    return run_unrecorded(where, where.current().phase, op::cast<T>{}, std::as_const(x));
  } else {
    return apply_as_is(op::cast<T>{}, taken_operand(std::forward<X>(x), all...));
  }
}

template <class T, class Op, std::size_t... Is, class... Xs>
constexpr auto apply_cast(const Op& op, std::index_sequence<Is...>, Xs&&... xs) {
  using recorder = typename recorder_of<std::remove_cvref_t<Xs>...>::type;
  constexpr bool recorded = !std::is_void_v<recorder>;
  auto& where = [&]() -> auto& {
    if constexpr (recorded) return find_recorder<recorder>(xs...);
    else return checked_context_for(op, xs...);
  }();
  return apply_as_is(op, as_type < T,
                     (casts_number<Op, Is, Xs> && !is_read_as_stored<T, Op, Is, std::remove_cvref_t<Xs>>()) ||
                         is_read_as_copy<T, Op, Is, std::remove_cvref_t<Xs>>(),
                     recorded > (where, std::forward<Xs>(xs), xs...)...);
}

// Named in compiler messages about operands of a product that have no common type.
template <bool TheyFit, class Op, class... ElementTypes>
inline constexpr bool element_types_fit = TheyFit;

// False for a product with an integer factor.
template <class Op, class... Xs>
constexpr bool multiplies_floats() {
  return []<std::size_t... Is>(std::index_sequence<Is...>) {
    return list_of<Op>() != op_precision::low || ((!casts_operand<Op, Is> || is_floating<value_of_t<Xs>>)&&...);
  }(std::index_sequence_for<Xs...>{});
}

// Named in compiler messages, with the operation and its operands.
template <class Op, class X, class... Xs>
inline constexpr bool operands_are_on_one_device = (std::is_same_v<typename X::device, typename Xs::device> && ...);

template <class X, class... Xs>
constexpr auto first_traced(const X& x, const Xs&... rest) {
  if constexpr (is_traced<X>) return x;
  else return first_traced(rest...);
}

template <class X>
constexpr void check_initialised(std::string_view op, std::size_t operand, const X& x) {
  if constexpr (is_model_tensor<X>)
    if (!x.value()) fail_uninitialised(op, operand, X::shape::extents.data(), X::shape::rank);
}

}  // namespace detail

/// Applies an operation: runs it if all operands are plain; otherwise the recorder of the traced operands runs and
/// records it. Operands of products are first cast to the compute type of the parameters' policy. Without parameters,
/// the common type of one 16-bit type and float is the 16-bit type; other types must not be mixed.
template <class Op, operand... Xs>
constexpr auto apply(const Op& op, Xs&&... xs) {
  using recorder = typename detail::recorder_of<std::remove_cvref_t<Xs>...>::type;
  constexpr bool from_one_region = (detail::recorded_by<recorder, std::remove_cvref_t<Xs>> && ...);
  static_assert(from_one_region,
                "checkpoint(f, x...): f uses a traced value that it does not take as an argument; pass it: "
                "checkpoint(f, x, value)");
  constexpr bool on_one_device = detail::operands_are_on_one_device<Op, tensor_of<Xs>...>;
  static_assert(detail::operands_are_on_one_device<Op, tensor_of<Xs>...>,
                "apply(op, x...): the operands must be on one device");
  if constexpr (!from_one_region) {
    return detail::first_traced(xs...);  // has the expected type, so that the message is the only one
  } else if constexpr (on_one_device) {
    std::size_t operand = 0;
    (detail::check_initialised(detail::name_of(op), ++operand, xs), ...);
    using T = typename detail::call_rules<Op, std::remove_cvref_t<Xs>...>::cast;
    constexpr bool fit = !std::is_same_v<T, detail::types_differ> && detail::multiplies_floats<Op, Xs...>();
    static_assert(detail::element_types_fit<fit, Op, value_of_t<Xs>...>,
                  "matmul, linear, conv, attention: operands must be of one floating-point type, or of float and one "
                  "16-bit type");
    if constexpr (std::is_void_v<T> && fit) return detail::apply_as_is(op, std::forward<Xs>(xs)...);
    else if constexpr (fit) return detail::apply_cast<T>(op, std::index_sequence_for<Xs...>{}, std::forward<Xs>(xs)...);
  }
}

/// x with elements of type T, each rounded once: `cast<bf16>(x)`. Backward casts the gradient back. If x has type T, it
/// is returned as it is.
template <class T, operand X>
GRADUS_OF_BUILD constexpr auto cast(X&& x) {
  static_assert(is_element<T>);
  constexpr bool has_gradient = !is_traced<std::remove_cvref_t<X>> || is_floating<T> || !is_floating<value_of_t<X>>;
  static_assert(has_gradient,
                "cast<T>(x): a recorded floating-point value must stay one; take x.value() out of the recording");
  if constexpr (has_gradient) return apply(op::cast<T>{}, std::forward<X>(x));
}

}  // namespace gradus
