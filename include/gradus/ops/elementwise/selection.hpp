#pragma once
// Functions that select between operands: minimum, maximum, clamp, where.

#include <cstdint>
#include <limits>
#include <string_view>
#include <type_traits>
#include <utility>

#include "../../core/config.hpp"
#include "../../core/math.hpp"
#include "../../precision/promotion.hpp"
#include "../comparison/comparison.hpp"
#include "arithmetic.hpp"
#include "elementwise.hpp"

namespace gradus {

namespace functor {

// clang-format off
/// The smaller of both; NaN if either is NaN.
struct minimum { static constexpr std::string_view name = "minimum";
  static constexpr bool selects = true;
  template <class T> GRADUS_HD T operator()(T a, T b) const {
    using math::select; return select(a < b || a != a, a, b);
  } };
/// The larger of both; NaN if either is NaN.
struct maximum { static constexpr std::string_view name = "maximum";
  static constexpr bool selects = true;
  template <class T> GRADUS_HD T operator()(T a, T b) const {
    using math::select; return select(a > b || a != a, a, b);
  } };
/// F, minimum or maximum, of x and a run-time constant, or of the constant and x. N: double or std::int64_t.
template <class F, class N>
struct beside_number { static constexpr std::string_view name = F::name;
  N number; bool number_first; static constexpr bool selects = true;
  template <class T> GRADUS_HD T operator()(T x) const {
    return number_first ? F{}(T(number), x) : F{}(x, T(number));
  } };
/// x limited to [low, high], run-time constants: high where low is above it. NaN stays, and x - x is NaN with
/// derivative 0.
struct clamp { static constexpr std::string_view name = "clamp";
  double low, high; static constexpr bool selects = true;
  template <class T> GRADUS_HD T operator()(T x) const {
    using math::select;
    if constexpr (std::is_integral_v<T>) {
      const T least = math::whole_at_least<T>(low), most = math::whole_at_most<T>(high);
      const T raised = x < least ? least : x;
      return raised > most ? most : raised;
    } else {
      const T raised = select(x < T(low), T(low), x);
      return select(x == x, select(raised > T(high), T(high), raised), x - x);
    }
  } };
/// `a` where the condition is not 0, `b` elsewhere.
struct where { static constexpr std::string_view name = "where";
  static constexpr bool selects = true;
  template <class T> GRADUS_HD T operator()(T condition, T a, T b) const {
    using math::select;
    return select(condition != T(0), a, b);
  } };
/// `where` with a run-time constant as b, or as a if `inverted`. N: double or std::int64_t.
template <class N>
struct where_or { static constexpr std::string_view name = "where";
  N other; bool inverted; static constexpr bool selects = true;
  template <class T> GRADUS_HD T operator()(T condition, T a) const {
    using math::select;
    return inverted ? select(condition != T(0), T(other), a) : select(condition != T(0), a, T(other));
  } };
// clang-format on

}  // namespace functor

/// The smaller of each pair, element by element; the shapes broadcast.
template <operand A, operand B>
GRADUS_OF_BUILD constexpr auto minimum(A&& a, B&& b) {
  GRADUS_REQUIRE(
      "minimum(a, b): the shapes of a and b must be equal, or 1 where they differ, axis by axis from the back",
      detail::shapes_broadcast<shape_of<A>, shape_of<B>>)
  return apply(op::map<functor::minimum>{}, std::forward<A>(a), std::forward<B>(b));
}
/// The larger of each pair, element by element; the shapes broadcast.
template <operand A, operand B>
GRADUS_OF_BUILD constexpr auto maximum(A&& a, B&& b) {
  GRADUS_REQUIRE(
      "maximum(a, b): the shapes of a and b must be equal, or 1 where they differ, axis by axis from the back",
      detail::shapes_broadcast<shape_of<A>, shape_of<B>>)
  return apply(op::map<functor::maximum>{}, std::forward<A>(a), std::forward<B>(b));
}

namespace detail {
template <class F, class N, class X>
GRADUS_OF_BUILD constexpr auto extreme_beside(X&& x, N number, bool number_first) {
  using T = value_of_t<X>;
  GRADUS_REQUIRE("minimum(x, c), maximum(x, c): beside integers a number must be whole", constant_fits_elements<N, T>)
  if constexpr (std::is_integral_v<N> && !is_floating<T>) {  // the number, limited to what T holds
    using limits = std::numeric_limits<T>;
    const std::int64_t held = std::cmp_less(number, limits::min())      ? static_cast<std::int64_t>(limits::min())
                              : std::cmp_greater(number, limits::max()) ? static_cast<std::int64_t>(limits::max())
                                                                        : static_cast<std::int64_t>(number);
    return apply(op::map<functor::beside_number<F, std::int64_t>>{{held, number_first}}, std::forward<X>(x));
  } else {
    return apply(op::map<functor::beside_number<F, double>>{{static_cast<double>(number), number_first}},
                 std::forward<X>(x));
  }
}
}  // namespace detail
/// The smaller, or the larger, of each element and a number, which is rounded to the elements' type, or limited to what
/// integers of that type hold: `maximum(x, 0.1)`. Of equal ones the second operand gets the gradient.
template <operand X, constant C>
GRADUS_OF_BUILD constexpr auto minimum(X&& x, C number) {
  return detail::extreme_beside<functor::minimum>(std::forward<X>(x), number, false);
}
template <constant C, operand X>
GRADUS_OF_BUILD constexpr auto minimum(C number, X&& x) {
  return detail::extreme_beside<functor::minimum>(std::forward<X>(x), number, true);
}
template <operand X, constant C>
GRADUS_OF_BUILD constexpr auto maximum(X&& x, C number) {
  return detail::extreme_beside<functor::maximum>(std::forward<X>(x), number, false);
}
template <constant C, operand X>
GRADUS_OF_BUILD constexpr auto maximum(C number, X&& x) {
  return detail::extreme_beside<functor::maximum>(std::forward<X>(x), number, true);
}
/// x limited to [low, high]; the derivative is 0 outside.
template <operand X>
GRADUS_OF_BUILD constexpr auto clamp(X&& x, double low, double high) {
  return apply(op::map<functor::clamp>{{low, high}}, std::forward<X>(x));
}
namespace detail {
// The condition, as bool if its own type would take part in the type of where(condition, xs...).
template <class... Xs, class C>
GRADUS_OF_BUILD constexpr decltype(auto) condition_for(const C& condition) {
  if constexpr (std::is_same_v<promote<value_of_t<C>, value_of_t<Xs>...>, promote<value_of_t<Xs>...>>)
    return (condition);
  else return condition != 0;
}
}  // namespace detail
/// `a` where the condition is not 0, `b` elsewhere; the shapes broadcast. The condition has no gradient.
template <operand C, operand A, operand B>
GRADUS_OF_BUILD constexpr auto where(const C& condition, A&& a, B&& b) {
  GRADUS_REQUIRE("where(condition, a, b): the three shapes must broadcast together",
                 can_broadcast<shape_of<C>, shape_of<A>, shape_of<B>>)
  return apply(op::map<functor::where>{}, detail::condition_for<A, B>(condition), std::forward<A>(a),
               std::forward<B>(b));
}

namespace detail {
template <class N, class C, class X>
GRADUS_OF_BUILD constexpr auto where_or(const C& condition, X&& x, N other, bool inverted) {
  using number = std::conditional_t<std::is_integral_v<N> && !is_floating<value_of_t<X>>, std::int64_t, double>;
  GRADUS_REQUIRE("where(condition, a, b): the shapes must broadcast together", can_broadcast<shape_of<C>, shape_of<X>>)
  GRADUS_REQUIRE("where(condition, a, b): beside integers a number must be whole",
                 constant_fits_elements<N, value_of_t<X>>)
  return apply(op::map<functor::where_or<number>>{{static_cast<number>(other), inverted}}, condition_for<X>(condition),
               std::forward<X>(x));
}
}  // namespace detail
/// a where the condition is true, b elsewhere, with a number as a or b: `where(mask, scores, -1e9)`.
template <operand C, operand A, constant B>
GRADUS_OF_BUILD constexpr auto where(const C& condition, A&& a, B b) {
  return detail::where_or(condition, std::forward<A>(a), b, false);
}
template <operand C, constant A, operand B>
GRADUS_OF_BUILD constexpr auto where(const C& condition, A a, B&& b) {
  return detail::where_or(condition, std::forward<B>(b), a, true);
}

}  // namespace gradus
