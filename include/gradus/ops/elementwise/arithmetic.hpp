#pragma once
// Sums, differences, products and quotients, element by element, and the operators + - * / += -= *= /= with tensors
// and numbers.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <type_traits>
#include <utility>

#include "../../core/config.hpp"
#include "../../core/error.hpp"
#include "../../core/math.hpp"
#include "elementwise.hpp"

namespace gradus {

namespace functor {

// clang-format off
/// a + b.
struct add { static constexpr std::string_view name = "add";
  static constexpr bool linear = true, sum = true;
  template <class T> GRADUS_HD T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) return math::wrapping_add(a, b);
    else return a + b;
  } };
/// a - b.
struct subtract { static constexpr std::string_view name = "subtract";
  static constexpr bool linear = true;
  template <class T> GRADUS_HD T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) return math::wrapping_subtract(a, b);
    else return a - b;
  } };
/// a * b.
struct multiply { static constexpr std::string_view name = "multiply";
  template <class T> GRADUS_HD T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) return math::wrapping_multiply(a, b);
    else return a * b;
  } };
/// a / b.
struct divide { static constexpr std::string_view name = "divide";
  template <class T> GRADUS_HD T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) return math::quotient(a, b);
    else return a / b;
  } };
/// -x.
struct negate { static constexpr std::string_view name = "negate";
  static constexpr bool linear = true;
  template <class T> GRADUS_HD T operator()(T a) const {
    if constexpr (std::is_integral_v<T>) return math::wrapping_subtract(T(0), a);
    else return -a;
  } };
/// x * factor + offset with run-time constants, whole numbers if x has integers.
struct affine { static constexpr std::string_view name = "affine";
  double factor, offset; static constexpr bool linear = true; static constexpr std::size_t flops = 2;
  template <class T> GRADUS_HD T operator()(T x) const {
    if constexpr (std::is_integral_v<T>)
      return math::wrapping_add(math::wrapping_multiply(x, static_cast<T>(factor)), static_cast<T>(offset));
    else return x * T(factor) + T(offset);
  } };
/// x * factor + offset of integers, with 64-bit constants.
struct affine_whole { static constexpr std::string_view name = "affine";
  std::int64_t factor, offset; static constexpr bool linear = true; static constexpr std::size_t flops = 2;
  template <class T> GRADUS_HD T operator()(T x) const {
    return math::wrapping_add(math::wrapping_multiply(x, static_cast<T>(factor)), static_cast<T>(offset));
  } };
/// x / divisor with a run-time constant; a truncated quotient if x has integers.
struct divide_by { static constexpr std::string_view name = "divide_by";
  double divisor; static constexpr bool linear = true;
  template <class T> GRADUS_HD T operator()(T x) const {
    if constexpr (std::is_integral_v<T>) return math::quotient(x, static_cast<T>(divisor));
    else return x / T(divisor);
  } };
/// x / divisor of integers, truncated, with a 64-bit divisor. `infinite`: the divisor is larger than all of them.
struct divide_by_whole { static constexpr std::string_view name = "divide_by";
  std::int64_t divisor; bool infinite = false; static constexpr bool linear = true;
  template <class T> GRADUS_HD T operator()(T x) const {
    return infinite ? T(0) : static_cast<T>(math::quotient(static_cast<std::int64_t>(x), divisor));
  } };
/// constant / x.
struct divide_into { static constexpr std::string_view name = "divide_into";
  double constant; static constexpr bool floating_only = true, full = true;
  template <class T> GRADUS_HD T operator()(T x) const { return T(constant) / x; } };
// clang-format on

}  // namespace functor

/// Sum, element by element; the shapes broadcast.
template <operand A, operand B>
GRADUS_OF_BUILD constexpr auto add(A&& a, B&& b) {
  GRADUS_REQUIRE("a + b: the shapes of a and b must be equal, or 1 where they differ, axis by axis from the back",
                 detail::shapes_broadcast<shape_of<A>, shape_of<B>>)
  return apply(op::map<functor::add>{}, std::forward<A>(a), std::forward<B>(b));
}
/// Difference, element by element; the shapes broadcast.
template <operand A, operand B>
GRADUS_OF_BUILD constexpr auto subtract(A&& a, B&& b) {
  GRADUS_REQUIRE("a - b: the shapes of a and b must be equal, or 1 where they differ, axis by axis from the back",
                 detail::shapes_broadcast<shape_of<A>, shape_of<B>>)
  return apply(op::map<functor::subtract>{}, std::forward<A>(a), std::forward<B>(b));
}
/// Product, element by element; the shapes broadcast.
template <operand A, operand B>
GRADUS_OF_BUILD constexpr auto multiply(A&& a, B&& b) {
  GRADUS_REQUIRE("a * b: the shapes of a and b must be equal, or 1 where they differ, axis by axis from the back",
                 detail::shapes_broadcast<shape_of<A>, shape_of<B>>)
  return apply(op::map<functor::multiply>{}, std::forward<A>(a), std::forward<B>(b));
}
/// Quotient, element by element; the shapes broadcast. Integer quotients are truncated; an integer divided by 0 throws
/// gradus::error on the CPU and is 0 on a GPU.
template <operand A, operand B>
GRADUS_OF_BUILD constexpr auto divide(A&& a, B&& b) {
  GRADUS_REQUIRE("a / b: the shapes of a and b must be equal, or 1 where they differ, axis by axis from the back",
                 detail::shapes_broadcast<shape_of<A>, shape_of<B>>)
  return apply(op::map<functor::divide>{}, std::forward<A>(a), std::forward<B>(b));
}
/// -x.
template <operand X>
GRADUS_OF_BUILD constexpr auto negate(X&& x) {
  return apply(op::map<functor::negate>{}, std::forward<X>(x));
}

namespace detail {
template <class C, class ElementType>
inline constexpr bool constant_fits_elements = is_floating<ElementType> || std::is_integral_v<C>;

// Of whole constants: true of an unsigned one that std::int64_t does not hold.
template <class C>
constexpr bool is_above_int64(C c) {
  return std::is_unsigned_v<C> && static_cast<std::uint64_t>(c) > std::numeric_limits<std::int64_t>::max();
}
// Applies f, which holds a constant of type C, to x.
template <class C, class F, class X>
GRADUS_OF_BUILD constexpr auto map_with_constant(const F& f, X&& x) {
  GRADUS_REQUIRE(
      "x + c, x - c, x * c, x / c: an integer tensor takes whole constants (x * 2); for others cast it first: "
      "cast<float>(x) * 0.5",
      constant_fits_elements<C, value_of_t<X>>)
  return apply(op::map<F>{f}, std::forward<X>(x));
}
// factor * x + offset: one of the two has type C, the other is a whole number.
template <class C, class X, class Factor, class Offset>
GRADUS_OF_BUILD constexpr auto affine_of(X&& x, Factor factor, Offset offset) {
  if constexpr (std::is_integral_v<C> && !is_floating<value_of_t<X>>)
    return map_with_constant<C>(
        functor::affine_whole{static_cast<std::int64_t>(factor), static_cast<std::int64_t>(offset)},
        std::forward<X>(x));
  else
    return map_with_constant<C>(functor::affine{static_cast<double>(factor), static_cast<double>(offset)},
                                std::forward<X>(x));
}
// -c, also if C is unsigned; a double for a floating-point X, since -0.0 differs from 0.
template <class X, class C>
GRADUS_OF_BUILD constexpr auto negated(C c) {
  if constexpr (std::is_integral_v<C> && !is_floating<value_of_t<X>>) return -static_cast<std::int64_t>(c);
  else return -static_cast<double>(c);
}
// Adding it changes no x, not even -0.
inline constexpr double no_offset = -0.0;
[[noreturn]] inline void fail_zero_constant() { throw error("x / 0: an integer tensor takes a divisor other than 0"); }
}  // namespace detail

/// A number as the operand of an operator.
template <class C>
concept constant = std::is_arithmetic_v<C>;

#define GRADUS_OPERATOR(symbol, function)                        \
  template <operand A, operand B>                                \
  GRADUS_OF_BUILD constexpr auto operator symbol(A&& a, B&& b) { \
    return function(std::forward<A>(a), std::forward<B>(b));     \
  }
/// The operators call add(), subtract(), multiply(), divide() and negate(). A number is a constant of the operation: it
/// has no gradient and does not change the element type. Beside an integer tensor only whole numbers compile. Integer
/// results wrap around; an integer tensor divided by the number 0 throws gradus::error.
GRADUS_OPERATOR(+, add)
GRADUS_OPERATOR(-, subtract)
GRADUS_OPERATOR(*, multiply)
GRADUS_OPERATOR(/, divide)
#undef GRADUS_OPERATOR

template <operand X, constant C>
GRADUS_OF_BUILD constexpr auto operator+(X&& x, C c) {
  return detail::affine_of<C>(std::forward<X>(x), 1, c);
}
template <constant C, operand X>
GRADUS_OF_BUILD constexpr auto operator+(C c, X&& x) {
  return detail::affine_of<C>(std::forward<X>(x), 1, c);
}
template <operand X, constant C>
GRADUS_OF_BUILD constexpr auto operator-(X&& x, C c) {
  return detail::affine_of<C>(std::forward<X>(x), 1, detail::negated<X>(c));
}
template <constant C, operand X>
GRADUS_OF_BUILD constexpr auto operator-(C c, X&& x) {
  return detail::affine_of<C>(std::forward<X>(x), -1, c);
}
template <operand X, constant C>
GRADUS_OF_BUILD constexpr auto operator*(X&& x, C c) {
  return detail::affine_of<C>(std::forward<X>(x), c, detail::no_offset);
}
template <constant C, operand X>
GRADUS_OF_BUILD constexpr auto operator*(C c, X&& x) {
  return detail::affine_of<C>(std::forward<X>(x), c, detail::no_offset);
}
template <operand X, constant C>
GRADUS_OF_BUILD constexpr auto operator/(X&& x, C c) {
  if constexpr (std::is_integral_v<C> && !is_floating<value_of_t<X>>) {
    if (c == 0) detail::fail_zero_constant();
    return detail::map_with_constant<C>(
        functor::divide_by_whole{static_cast<std::int64_t>(c), detail::is_above_int64(c)}, std::forward<X>(x));
  } else {
    return detail::map_with_constant<C>(functor::divide_by{static_cast<double>(c)}, std::forward<X>(x));
  }
}
template <constant C, operand X>
GRADUS_OF_BUILD constexpr auto operator/(C c, X&& x) {
  return detail::map_with_constant<C>(functor::divide_into{static_cast<double>(c)}, std::forward<X>(x));
}
template <operand X>
GRADUS_OF_BUILD constexpr auto operator-(X&& x) {
  return negate(std::forward<X>(x));
}

namespace detail {
// Named in compiler messages, with the types of x and of x + y.
template <class X, class Result>
inline constexpr bool keeps_its_type = std::is_same_v<X, Result>;

template <class X, class Result>
constexpr X& assign(X& x, Result result) {
  GRADUS_REQUIRE(
      "x += y, x -= y, x *= y, x /= y: x must be a tensor or a traced value that is not const, and x + y must "
      "have x's shape, element type and recording",
      keeps_its_type<X, Result>)
  x = std::move(result);
  return x;
}
template <class X, class Y>
concept updates = operand<X> && (operand<Y> || constant<std::remove_cvref_t<Y>>);
}  // namespace detail

/// x = x + y, and so on, in x's memory if nothing else reads it. The result must have the shape and type of x, which
/// is empty if the operation throws.
template <class X, class Y>
  requires detail::updates<X, Y>
GRADUS_OF_BUILD constexpr X& operator+=(X& x, Y&& y) {
  return detail::assign(x, std::move(x) + std::forward<Y>(y));
}
template <class X, class Y>
  requires detail::updates<X, Y>
GRADUS_OF_BUILD constexpr X& operator-=(X& x, Y&& y) {
  return detail::assign(x, std::move(x) - std::forward<Y>(y));
}
template <class X, class Y>
  requires detail::updates<X, Y>
GRADUS_OF_BUILD constexpr X& operator*=(X& x, Y&& y) {
  return detail::assign(x, std::move(x) * std::forward<Y>(y));
}
template <class X, class Y>
  requires detail::updates<X, Y>
GRADUS_OF_BUILD constexpr X& operator/=(X& x, Y&& y) {
  return detail::assign(x, std::move(x) / std::forward<Y>(y));
}

}  // namespace gradus
