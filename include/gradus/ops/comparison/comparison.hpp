#pragma once
// Comparisons of operands as operators, and logical functions: tensors of bool that have no gradient.

#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>

#include "../../autodiff/apply.hpp"
#include "../../core/config.hpp"
#include "../../core/math.hpp"
#include "../elementwise/arithmetic.hpp"
#include "../elementwise/elementwise.hpp"

namespace gradus {

namespace functor {

// clang-format off
/// a < b; false if either is NaN, as for the next four.
struct less { static constexpr std::string_view name = "less"; using result = bool;
  template <class T> GRADUS_HD auto operator()(T a, T b) const { return a < b; } };
/// a > b.
struct greater { static constexpr std::string_view name = "greater"; using result = bool;
  template <class T> GRADUS_HD auto operator()(T a, T b) const { return a > b; } };
/// a <= b.
struct less_equal { static constexpr std::string_view name = "less_equal"; using result = bool;
  template <class T> GRADUS_HD auto operator()(T a, T b) const { return a <= b; } };
/// a >= b.
struct greater_equal { static constexpr std::string_view name = "greater_equal"; using result = bool;
  template <class T> GRADUS_HD auto operator()(T a, T b) const { return a >= b; } };
/// a == b.
struct equal { static constexpr std::string_view name = "equal"; using result = bool;
  template <class T> GRADUS_HD auto operator()(T a, T b) const { return a == b; } };
/// a != b; true if either is NaN.
struct not_equal { static constexpr std::string_view name = "not_equal"; using result = bool;
  template <class T> GRADUS_HD auto operator()(T a, T b) const { return a != b; } };
/// True where neither is 0.
struct logical_and { static constexpr std::string_view name = "logical_and"; using result = bool;
  template <class T> GRADUS_HD auto operator()(T a, T b) const { return a != T(0) && b != T(0); } };
/// True where not both are 0.
struct logical_or { static constexpr std::string_view name = "logical_or"; using result = bool;
  template <class T> GRADUS_HD auto operator()(T a, T b) const { return a != T(0) || b != T(0); } };
/// True where x is 0.
struct logical_not { static constexpr std::string_view name = "logical_not"; using result = bool;
  template <class T> GRADUS_HD auto operator()(T x) const { return x == T(0); } };
/// A comparison with a run-time constant. N: double, or std::int64_t beside integers; then `below` says that each
/// integer is less than the constant.
template <class Comparison, class N>
struct compare_with { static constexpr std::string_view name = Comparison::name; using result = bool;
  N other; bool below = false;
  template <class T> GRADUS_HD auto operator()(T x) const {
    if constexpr (std::is_integral_v<T>)
      return below ? Comparison{}(std::int64_t{0}, std::int64_t{1})
                   : Comparison{}(static_cast<std::int64_t>(x), std::int64_t{other});
    else return Comparison{}(x, T(other));
  } };
/// One of two run-time constants. N: double or std::int64_t.
template <class N>
struct choose { static constexpr std::string_view name = "where";
  N a, b; static constexpr bool selects = true;
  template <class T> GRADUS_HD T operator()(T condition) const {
    using math::select;
    return select(condition != T(0), T(a), T(b));
  } };
// clang-format on

}  // namespace functor

namespace detail {
template <class F, class A, class B>
GRADUS_OF_BUILD constexpr auto compare(const A& a, const B& b) {
  GRADUS_REQUIRE(
      "a < b, a == b, logical_and(a, b): the shapes of a and b must be equal, or 1 where they differ, axis by "
      "axis from the back",
      shapes_broadcast<shape_of<A>, shape_of<B>>)
  return apply(op::map<F>{}, a, b);
}
// A number beside floating-point elements is rounded to their type first: 0.1 equals an element that was set to 0.1.
template <class F, class X, class C>
GRADUS_OF_BUILD constexpr auto compare_with(const X& x, C c) {
  using T = value_of_t<X>;
  GRADUS_REQUIRE(
      "x < c, x == c: an integer tensor is compared with whole numbers; for others cast it first: "
      "cast<float>(x) < 0.5",
      constant_fits_elements<C, T>)
  if constexpr (is_floating<T>)
    return apply(op::map<functor::compare_with<F, double>>{{static_cast<double>(
                     convert_element<T>(static_cast<compute_type<T>>(c)))}},
                 x);
  else
    return apply(op::map<functor::compare_with<F, std::int64_t>>{{static_cast<std::int64_t>(c), is_above_int64(c)}}, x);
}
}  // namespace detail

/// Comparisons, element by element; the shapes broadcast, and the result has elements of type `bool`. A number on
/// either side is a constant. Beside an integer tensor only whole numbers compile.
#define GRADUS_COMPARISON(symbol, comparison, mirrored)                    \
  template <operand A, operand B>                                          \
  GRADUS_OF_BUILD constexpr auto operator symbol(const A& a, const B& b) { \
    return detail::compare<functor::comparison>(a, b);                     \
  }                                                                        \
  template <operand X, constant C>                                         \
  GRADUS_OF_BUILD constexpr auto operator symbol(const X& x, C c) {        \
    return detail::compare_with<functor::comparison>(x, c);                \
  }                                                                        \
  template <constant C, operand X>                                         \
  GRADUS_OF_BUILD constexpr auto operator symbol(C c, const X& x) {        \
    return detail::compare_with<functor::mirrored>(x, c);                  \
  }
GRADUS_COMPARISON(<, less, greater)
GRADUS_COMPARISON(>, greater, less)
GRADUS_COMPARISON(<=, less_equal, greater_equal)
GRADUS_COMPARISON(>=, greater_equal, less_equal)
GRADUS_COMPARISON(==, equal, equal)
GRADUS_COMPARISON(!=, not_equal, not_equal)
#undef GRADUS_COMPARISON

/// True where neither a nor b is 0; the shapes broadcast.
template <operand A, operand B>
GRADUS_OF_BUILD constexpr auto logical_and(const A& a, const B& b) {
  return detail::compare<functor::logical_and>(a, b);
}
/// True where a or b is not 0; the shapes broadcast.
template <operand A, operand B>
GRADUS_OF_BUILD constexpr auto logical_or(const A& a, const B& b) {
  return detail::compare<functor::logical_or>(a, b);
}
/// True where x is 0.
template <operand X>
GRADUS_OF_BUILD constexpr auto logical_not(const X& x) {
  return apply(op::map<functor::logical_not>{}, x);
}

/// The number a where the condition is not 0, b elsewhere: float, or std::int64_t if both numbers are whole.
template <operand C, constant A, constant B>
GRADUS_OF_BUILD constexpr auto where(const C& condition, A a, B b) {
  constexpr bool whole = std::is_integral_v<A> && std::is_integral_v<B>;
  using N = std::conditional_t<whole, std::int64_t, double>;
  using T = std::conditional_t<whole, std::int64_t, float>;
  return apply(op::map<functor::choose<N>>{{static_cast<N>(a), static_cast<N>(b)}}, cast<T>(condition != 0));
}

}  // namespace gradus
