#pragma once
// apply(op, x...): the one way by which operations are applied, whoever records them.

#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "../core/config.hpp"
#include "../core/shape_text.hpp"
#include "call.hpp"
#include "cast.hpp"
#include "failures.hpp"
#include "operand.hpp"
#include "run.hpp"

namespace gradus {

namespace detail {

// The context that an operation on plain operands runs in: that of the first one that is not a parameter. Parameters
// are persistent, and may lie in a context of their own.
template <class X, class... Rest>
constexpr auto& context_for(const X& x, const Rest&... rest) {
  if constexpr (sizeof...(Rest) > 0 && (is_param<X> || is_computed_param<X>)) return context_for(rest...);
  else return plain(x).owner();
}
// The same, where a model that several threads use could make them share the context of its parameters: that is
// refused.
template <class Op, class... Xs>
constexpr auto& checked_context_for(const Op& op, const Xs&... xs) {
  auto& ctx = context_for(xs...);
  if constexpr (((is_param<Xs> || is_computed_param<Xs>)&&...))
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

// True if operand I, an X, is a parameter that the kernel reads as it is stored, though the others are T.
template <class T, class Op, std::size_t I, class X>
constexpr bool is_read_as_stored() {
  if constexpr (is_param<X>) {
    constexpr bool exact_or_rounded = std::is_same_v<typename X::value_type, float> || std::is_same_v<T, float>;
    return exact_or_rounded && X::device::rounds_in_products && !X::policy::precision::keeps_copies &&
           (rounds_operands_of<Op>() >> I & 1u) != 0;
  } else {
    return false;
  }
}

// Converts an operand to T: a tensor or traced value by an operation of its own that is recorded where the operand is;
// a parameter by its cached copy, or by an operation beside the others if T is not its policy's compute type. `others`
// are all operands, and `where` is what records them, or else the context that they meet in.
template <class T, bool Cast, bool Recorded, class Where, class X, class... Xs>
GRADUS_OF_BUILD constexpr decltype(auto) as_type([[maybe_unused]] Where& where, X&& x, const Xs&... others) {
  using raw = std::remove_cvref_t<X>;
  if constexpr (!Cast || std::is_same_v<value_of_t<raw>, T>) return std::forward<X>(x);
  else if constexpr (is_param<raw> && std::is_same_v<typename raw_compute<raw>::type, T>) {
    plain(x).check_present();
    return computed_param<raw>{&x, x.computed()};
  } else if constexpr (is_param<raw> && Recorded) {
    return where.record(op::cast<T>{}, std::as_const(x));
  } else if constexpr (is_param<raw>) {
    return run_unrecorded(where, where.current().phase, op::cast<T>{}, std::as_const(x));
  } else {
    return apply_as_is(op::cast<T>{}, taken_operand(std::forward<X>(x), others...));
  }
}

template <class T, class Op, std::size_t... I, class... Xs>
constexpr auto apply_cast(const Op& op, std::index_sequence<I...>, Xs&&... xs) {
  using recorder = typename recorder_of<std::remove_cvref_t<Xs>...>::type;
  constexpr bool recorded = !std::is_void_v<recorder>;
  auto& where = [&]() -> auto& {
    if constexpr (recorded) return find_recorder<recorder>(xs...);
    else return checked_context_for(op, xs...);
  }();
  return apply_as_is(op, as_type < T,
                     casts_number<Op, I, Xs> && !is_read_as_stored<T, Op, I, std::remove_cvref_t<Xs>>(),
                     recorded > (where, std::forward<Xs>(xs), xs...)...);
}

// What the compiler names where operands of a product are of types that do not go together.
template <bool TheyFit, class Op, class... ElementTypes>
inline constexpr bool element_types_fit = TheyFit;

// False for an operation on the list `low` with an integer in the place of a number that it multiplies.
template <class Op, class... Xs>
constexpr bool multiplies_floats() {
  return []<std::size_t... I>(std::index_sequence<I...>) {
    return list_of<Op>() != op_precision::low || ((!casts_operand<Op, I> || is_floating<value_of_t<Xs>>)&&...);
  }(std::index_sequence_for<Xs...>{});
}

// The compiler names the operation and the operands that are not on one device.
template <class Op, class X, class... Xs>
inline constexpr bool operands_are_on_one_device = (std::is_same_v<typename X::device, typename Xs::device> && ...);

template <class X, class... Xs>
constexpr auto first_traced(const X& x, const Xs&... rest) {
  if constexpr (is_traced<X>) return x;
  else return first_traced(rest...);
}

template <class X>
constexpr void check_initialised(std::string_view op, std::size_t operand, const X& x) {
  if constexpr (is_param<X>)
    if (!x.value()) fail_uninitialised(op, operand, X::shape::extents.data(), X::shape::rank);
}

}  // namespace detail

/// Applies an operation. With plain operands it computes and that is all; when an operand is traced, its recorder
/// decides. Operands of products are first cast to what the policy of the parameters among them computes in. Without a
/// parameter, operands of one 16-bit type and of float meet in the 16-bit one; others must be of one type.
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
    return detail::first_traced(xs...);  // of the type that is expected, so that the message is the only one
  } else if constexpr (on_one_device) {
    std::size_t operand = 0;
    (detail::check_initialised(detail::name_of(op), ++operand, xs), ...);
    using T = typename detail::call_rules<Op, std::remove_cvref_t<Xs>...>::cast;
    constexpr bool fit = !std::is_same_v<T, detail::types_differ> && detail::multiplies_floats<Op, Xs...>();
    static_assert(
        detail::element_types_fit<fit, Op, value_of_t<Xs>...>,
        "matmul, linear, attention: operands must be of one floating-point type, or of float and one 16-bit type");
    if constexpr (std::is_void_v<T> && fit) return detail::apply_as_is(op, std::forward<Xs>(xs)...);
    else if constexpr (fit) return detail::apply_cast<T>(op, std::index_sequence_for<Xs...>{}, std::forward<Xs>(xs)...);
  }
}

/// x with elements of type T, each rounded once: `cast<bf16>(x)`. The gradient is cast back. Of the same type it is x
/// itself.
template <class T, operand X>
GRADUS_OF_BUILD constexpr auto cast(X&& x) {
  static_assert(is_element<T>);
  constexpr bool has_gradient = !is_traced<std::remove_cvref_t<X>> || is_floating<T> || !is_floating<value_of_t<X>>;
  static_assert(has_gradient,
                "cast<T>(x): a recorded floating-point value must stay one; take x.value() out of the recording");
  if constexpr (has_gradient) return apply(op::cast<T>{}, std::forward<X>(x));
}

}  // namespace gradus
