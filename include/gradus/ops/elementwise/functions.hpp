#pragma once
// The named elementwise operations. Each is a functor and a line of sugar over map(); read one to learn how to write
// yours.

#include <cstddef>
#include <cstdint>
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
/// x * factor + offset with run-time constants, which are whole numbers if x is of integers.
struct affine { static constexpr std::string_view name = "affine";
  double factor, offset; static constexpr bool linear = true; static constexpr std::size_t flops = 2;
  template <class T> GRADUS_HD T operator()(T x) const {
    if constexpr (std::is_integral_v<T>)
      return math::wrapping_add(math::wrapping_multiply(x, static_cast<T>(factor)), static_cast<T>(offset));
    else return x * T(factor) + T(offset);
  } };
/// The same for integers, with whole constants of any size.
struct affine_whole { static constexpr std::string_view name = "affine";
  std::int64_t factor, offset; static constexpr bool linear = true; static constexpr std::size_t flops = 2;
  template <class T> GRADUS_HD T operator()(T x) const {
    return math::wrapping_add(math::wrapping_multiply(x, static_cast<T>(factor)), static_cast<T>(offset));
  } };
/// x / divisor with a run-time constant: a product with its reciprocal; on integers a quotient cut to a whole number.
struct divide_by { static constexpr std::string_view name = "divide_by";
  double divisor; static constexpr bool linear = true;
  template <class T> GRADUS_HD T operator()(T x) const {
    if constexpr (std::is_integral_v<T>) return math::quotient(x, static_cast<T>(divisor));
    else return x * T(1.0 / divisor);
  } };
/// The same for integers, with a whole divisor of any size.
struct divide_by_whole { static constexpr std::string_view name = "divide_by";
  std::int64_t divisor; static constexpr bool linear = true;
  template <class T> GRADUS_HD T operator()(T x) const {
    return static_cast<T>(math::quotient(static_cast<std::int64_t>(x), divisor));
  } };
/// constant / x.
struct divide_into { static constexpr std::string_view name = "divide_into";
  double constant; static constexpr bool floating_only = true, full = true;
  template <class T> GRADUS_HD T operator()(T x) const { return T(constant) / x; } };
/// The smaller; NaN in either operand gives NaN.
struct minimum { static constexpr std::string_view name = "minimum";
  static constexpr bool selects = true;
  template <class T> GRADUS_HD T operator()(T a, T b) const {
    using math::select; return select(a < b || a != a, a, b);
  } };
/// The larger; NaN in either operand gives NaN.
struct maximum { static constexpr std::string_view name = "maximum";
  static constexpr bool selects = true;
  template <class T> GRADUS_HD T operator()(T a, T b) const {
    using math::select; return select(a > b || a != a, a, b);
  } };
/// e to the power x.
struct exp { static constexpr std::string_view name = "exp";
  static constexpr bool floating_only = true, full = true; static constexpr std::size_t flops = 10;
  template <class T> GRADUS_HD T operator()(T x) const { using math::exp; return exp(x); }
  template <class T> GRADUS_HD T derivative_from_output(T y) const { return y; } };
/// Natural logarithm.
struct log { static constexpr std::string_view name = "log";
  static constexpr bool floating_only = true, full = true; static constexpr std::size_t flops = 10;
  template <class T> GRADUS_HD T operator()(T x) const { using math::log; return log(x); } };
/// Square root.
struct sqrt { static constexpr std::string_view name = "sqrt";
  static constexpr bool floating_only = true;
  template <class T> GRADUS_HD T operator()(T x) const { using math::sqrt; return sqrt(x); }
  template <class T> GRADUS_HD T derivative_from_output(T y) const { return T(0.5) / y; } };
/// One over the square root.
struct rsqrt { static constexpr std::string_view name = "rsqrt";
  static constexpr bool floating_only = true, full = true;
  template <class T> GRADUS_HD T operator()(T x) const { using math::sqrt; return T(1) / sqrt(x); } };
/// |x|; its derivative at 0 is 0.
struct abs { static constexpr std::string_view name = "abs";
  static constexpr bool selects = true;
  template <class T> GRADUS_HD T operator()(T x) const { using math::abs; return abs(x); } };
/// Hyperbolic tangent.
struct tanh { static constexpr std::string_view name = "tanh";
  static constexpr bool floating_only = true, coarse_form = true; static constexpr std::size_t flops = 12;
  template <class T> GRADUS_HD T operator()(T x) const { using math::tanh; return tanh(x); }
  template <class T> GRADUS_HD T derivative_from_output(T y) const { return T(1) - y * y; } };
/// 1 / (1 + e^-x).
struct sigmoid { static constexpr std::string_view name = "sigmoid";
  static constexpr bool floating_only = true, coarse_form = true; static constexpr std::size_t flops = 12;
  template <class T> GRADUS_HD T operator()(T x) const { using math::sigmoid; return sigmoid(x); } };
/// max(x, 0); its derivative at 0 is 0.
struct relu { static constexpr std::string_view name = "relu";
  static constexpr bool selects = true;
  template <class T> GRADUS_HD T operator()(T x) const { using math::select; return select(x <= T(0), T(0), x); }
  template <class T> GRADUS_HD T derivative_from_output(T y) const {
    using math::select; return select(y <= T(0), T(0), T(1));
  } };
/// x * sigmoid(x).
struct silu { static constexpr std::string_view name = "silu";
  static constexpr bool floating_only = true, coarse_form = true; static constexpr std::size_t flops = 13;
  template <class T> GRADUS_HD T operator()(T x) const { using math::silu; return silu(x); } };
/// Hendrycks and Gimpel 2016, the tanh form that GPT-2 uses.
struct gelu { static constexpr std::string_view name = "gelu";
  static constexpr bool floating_only = true, coarse_form = true; static constexpr std::size_t flops = 18;
  template <class T> GRADUS_HD T operator()(T x) const { using math::gelu; return gelu(x); } };
/// x * Phi(x), exactly, with the error function.
struct gelu_erf { static constexpr std::string_view name = "gelu_erf";
  static constexpr bool floating_only = true; static constexpr std::size_t flops = 18;
  template <class T> GRADUS_HD T operator()(T x) const { using math::gelu_erf; return gelu_erf(x); } };
/// x to the power y.
struct pow { static constexpr std::string_view name = "pow";
  static constexpr bool floating_only = true, full = true; static constexpr std::size_t flops = 20;
  template <class T> GRADUS_HD T operator()(T x, T y) const { using math::pow; return pow(x, y); } };
/// x to a power that is a run-time constant; squares and cubes are products.
struct pow_constant { static constexpr std::string_view name = "pow_constant";
  double exponent; static constexpr bool floating_only = true, full = true; static constexpr std::size_t flops = 20;
  template <class T> GRADUS_HD T operator()(T x) const {
    using math::pow;
    if (exponent == 2) return x * x;
    if (exponent == 3) return x * x * x;
    return pow(x, T(exponent));
  } };
/// x held between two run-time constants.
struct clamp { static constexpr std::string_view name = "clamp";
  double low, high; static constexpr bool selects = true;
  template <class T> GRADUS_HD T operator()(T x) const {
    using math::select;
    return select(x < T(low), T(low), select(x > T(high), T(high), x));
  } };
/// `a` where the condition is not 0, `b` elsewhere.
struct where { static constexpr std::string_view name = "where";
  static constexpr bool selects = true;
  template <class T> GRADUS_HD T operator()(T condition, T a, T b) const {
    using math::select;
    return select(condition != T(0), a, b);
  } };
/// `a` where the condition is not 0, a run-time constant elsewhere, or the other way round. N: double or std::int64_t.
template <class N>
struct where_or { static constexpr std::string_view name = "where";
  N other; bool inverted; static constexpr bool selects = true;
  template <class T> GRADUS_HD T operator()(T condition, T a) const {
    using math::select;
    return inverted ? select(condition != T(0), T(other), a) : select(condition != T(0), a, T(other));
  } };
// clang-format on

}  // namespace functor

namespace detail {
// One message for every binary operation whose operands do not fit; the template's arguments in it are the two shapes.
template <class A, class B>
inline constexpr bool shapes_broadcast = can_broadcast<A, B>;
}  // namespace detail

/// Sum, element by element; the shapes broadcast.
template <operand A, operand B>
GRADUS_OF_BUILD constexpr auto add(A&& a, B&& b) {
  static_assert(detail::shapes_broadcast<shape_of<A>, shape_of<B>>,
                "a + b: the shapes of a and b must be equal, or 1 where they differ, axis by axis from the back");
  return apply(op::map<functor::add>{}, std::forward<A>(a), std::forward<B>(b));
}
/// Difference, element by element; the shapes broadcast.
template <operand A, operand B>
GRADUS_OF_BUILD constexpr auto subtract(A&& a, B&& b) {
  static_assert(detail::shapes_broadcast<shape_of<A>, shape_of<B>>,
                "a - b: the shapes of a and b must be equal, or 1 where they differ, axis by axis from the back");
  return apply(op::map<functor::subtract>{}, std::forward<A>(a), std::forward<B>(b));
}
/// Product, element by element; the shapes broadcast.
template <operand A, operand B>
GRADUS_OF_BUILD constexpr auto multiply(A&& a, B&& b) {
  static_assert(detail::shapes_broadcast<shape_of<A>, shape_of<B>>,
                "a * b: the shapes of a and b must be equal, or 1 where they differ, axis by axis from the back");
  return apply(op::map<functor::multiply>{}, std::forward<A>(a), std::forward<B>(b));
}
/// Quotient, element by element; the shapes broadcast. Integers are cut to whole numbers; where one of them is divided
/// by 0 it throws gradus::error, and gives 0 on a GPU, which cannot throw.
template <operand A, operand B>
GRADUS_OF_BUILD constexpr auto divide(A&& a, B&& b) {
  static_assert(detail::shapes_broadcast<shape_of<A>, shape_of<B>>,
                "a / b: the shapes of a and b must be equal, or 1 where they differ, axis by axis from the back");
  return apply(op::map<functor::divide>{}, std::forward<A>(a), std::forward<B>(b));
}
/// The smaller of each pair, element by element; the shapes broadcast.
template <operand A, operand B>
GRADUS_OF_BUILD constexpr auto minimum(A&& a, B&& b) {
  static_assert(
      detail::shapes_broadcast<shape_of<A>, shape_of<B>>,
      "minimum(a, b): the shapes of a and b must be equal, or 1 where they differ, axis by axis from the back");
  return apply(op::map<functor::minimum>{}, std::forward<A>(a), std::forward<B>(b));
}
/// The larger of each pair, element by element; the shapes broadcast.
template <operand A, operand B>
GRADUS_OF_BUILD constexpr auto maximum(A&& a, B&& b) {
  static_assert(
      detail::shapes_broadcast<shape_of<A>, shape_of<B>>,
      "maximum(a, b): the shapes of a and b must be equal, or 1 where they differ, axis by axis from the back");
  return apply(op::map<functor::maximum>{}, std::forward<A>(a), std::forward<B>(b));
}
/// a to the power b, element by element; the shapes broadcast.
template <operand A, operand B>
GRADUS_OF_BUILD constexpr auto pow(A&& a, B&& b) {
  static_assert(detail::shapes_broadcast<shape_of<A>, shape_of<B>>,
                "pow(a, b): the shapes of a and b must be equal, or 1 where they differ, axis by axis from the back");
  return apply(op::map<functor::pow>{}, std::forward<A>(a), std::forward<B>(b));
}
/// -x.
template <operand X>
GRADUS_OF_BUILD constexpr auto negate(X&& x) {
  return apply(op::map<functor::negate>{}, std::forward<X>(x));
}
/// e to the power x.
template <operand X>
GRADUS_OF_BUILD constexpr auto exp(X&& x) {
  return apply(op::map<functor::exp>{}, std::forward<X>(x));
}
/// Natural logarithm.
template <operand X>
GRADUS_OF_BUILD constexpr auto log(X&& x) {
  return apply(op::map<functor::log>{}, std::forward<X>(x));
}
/// Square root.
template <operand X>
GRADUS_OF_BUILD constexpr auto sqrt(X&& x) {
  return apply(op::map<functor::sqrt>{}, std::forward<X>(x));
}
/// One over the square root.
template <operand X>
GRADUS_OF_BUILD constexpr auto rsqrt(X&& x) {
  return apply(op::map<functor::rsqrt>{}, std::forward<X>(x));
}
/// Absolute value; its derivative at 0 is 0.
template <operand X>
GRADUS_OF_BUILD constexpr auto abs(X&& x) {
  return apply(op::map<functor::abs>{}, std::forward<X>(x));
}
/// Hyperbolic tangent.
template <operand X>
GRADUS_OF_BUILD constexpr auto tanh(X&& x) {
  return apply(op::map<functor::tanh>{}, std::forward<X>(x));
}
/// 1 / (1 + e^-x).
template <operand X>
GRADUS_OF_BUILD constexpr auto sigmoid(X&& x) {
  return apply(op::map<functor::sigmoid>{}, std::forward<X>(x));
}
/// max(x, 0); its derivative at 0 is 0.
template <operand X>
GRADUS_OF_BUILD constexpr auto relu(X&& x) {
  return apply(op::map<functor::relu>{}, std::forward<X>(x));
}
/// x * sigmoid(x) (Elfwing et al. 2017).
template <operand X>
GRADUS_OF_BUILD constexpr auto silu(X&& x) {
  return apply(op::map<functor::silu>{}, std::forward<X>(x));
}
/// Gaussian error linear unit, tanh form (Hendrycks and Gimpel 2016).
template <operand X>
GRADUS_OF_BUILD constexpr auto gelu(X&& x) {
  return apply(op::map<functor::gelu>{}, std::forward<X>(x));
}
/// Gaussian error linear unit, exact form.
template <operand X>
GRADUS_OF_BUILD constexpr auto gelu_erf(X&& x) {
  return apply(op::map<functor::gelu_erf>{}, std::forward<X>(x));
}
/// x to a constant power.
template <operand X>
GRADUS_OF_BUILD constexpr auto pow(X&& x, double exponent) {
  return apply(op::map<functor::pow_constant>{{exponent}}, std::forward<X>(x));
}
/// x held between low and high; the derivative is 0 outside.
template <operand X>
GRADUS_OF_BUILD constexpr auto clamp(X&& x, double low, double high) {
  return apply(op::map<functor::clamp>{{low, high}}, std::forward<X>(x));
}
/// `a` where the condition is not zero, `b` elsewhere; the shapes broadcast. No gradient reaches the condition.
template <operand C, operand A, operand B>
GRADUS_OF_BUILD constexpr auto where(const C& condition, A&& a, B&& b) {
  static_assert(can_broadcast<shape_of<C>, shape_of<A>, shape_of<B>>,
                "where(condition, a, b): the three shapes must broadcast together");
  return apply(op::map<functor::where>{}, condition, std::forward<A>(a), std::forward<B>(b));
}

namespace detail {
template <class C, class ElementType>
inline constexpr bool constant_fits_elements = is_floating<ElementType> || std::is_integral_v<C>;

// f on x, where f has a constant of type C.
template <class C, class F, class X>
GRADUS_OF_BUILD constexpr auto map_with_constant(const F& f, X&& x) {
  static_assert(
      constant_fits_elements<C, value_of_t<X>>,
      "x + c, x - c, x * c, x / c: an integer tensor takes whole constants (x * 2); for others cast it first: "
      "cast<float>(x) * 0.5");
  if constexpr (constant_fits_elements<C, value_of_t<X>>) return apply(op::map<F>{f}, std::forward<X>(x));
}
// factor * x + offset, either of them of type C and the other one whole.
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
// -c; of an unsigned constant, too. Beside an X of floating-point numbers it is one of them: -0 differs from 0.
template <class X, class C>
GRADUS_OF_BUILD constexpr auto negated(C c) {
  if constexpr (std::is_integral_v<C> && !is_floating<value_of_t<X>>) return -static_cast<std::int64_t>(c);
  else return -static_cast<double>(c);
}
// What leaves every x as it is when it is added, -0 too.
inline constexpr double no_offset = -0.0;
[[noreturn]] inline void fail_zero_constant() { throw error("x / 0: an integer tensor takes a divisor other than 0"); }
}  // namespace detail

/// A number beside a tensor.
template <class C>
concept constant = std::is_arithmetic_v<C>;

/// The operators do what add(), subtract(), multiply(), divide() and negate() do; operands whose shapes do not
/// broadcast do not compile. A number on either side is a constant of the operation: it makes no tensor, has no
/// gradient, and leaves the element type as it is. Constants beside an integer tensor are whole numbers; others do not
/// compile. Integers wrap where a result does not fit; an integer tensor over the number 0 throws gradus::error.
template <operand A, operand B>
GRADUS_OF_BUILD constexpr auto operator+(A&& a, B&& b) {
  return add(std::forward<A>(a), std::forward<B>(b));
}
template <operand X, constant C>
GRADUS_OF_BUILD constexpr auto operator+(X&& x, C c) {
  return detail::affine_of<C>(std::forward<X>(x), 1, c);
}
template <constant C, operand X>
GRADUS_OF_BUILD constexpr auto operator+(C c, X&& x) {
  return detail::affine_of<C>(std::forward<X>(x), 1, c);
}
template <operand A, operand B>
GRADUS_OF_BUILD constexpr auto operator-(A&& a, B&& b) {
  return subtract(std::forward<A>(a), std::forward<B>(b));
}
template <operand X, constant C>
GRADUS_OF_BUILD constexpr auto operator-(X&& x, C c) {
  return detail::affine_of<C>(std::forward<X>(x), 1, detail::negated<X>(c));
}
template <constant C, operand X>
GRADUS_OF_BUILD constexpr auto operator-(C c, X&& x) {
  return detail::affine_of<C>(std::forward<X>(x), -1, c);
}
template <operand A, operand B>
GRADUS_OF_BUILD constexpr auto operator*(A&& a, B&& b) {
  return multiply(std::forward<A>(a), std::forward<B>(b));
}
template <operand X, constant C>
GRADUS_OF_BUILD constexpr auto operator*(X&& x, C c) {
  return detail::affine_of<C>(std::forward<X>(x), c, detail::no_offset);
}
template <constant C, operand X>
GRADUS_OF_BUILD constexpr auto operator*(C c, X&& x) {
  return detail::affine_of<C>(std::forward<X>(x), c, detail::no_offset);
}
template <operand A, operand B>
GRADUS_OF_BUILD constexpr auto operator/(A&& a, B&& b) {
  return divide(std::forward<A>(a), std::forward<B>(b));
}
template <operand X, constant C>
GRADUS_OF_BUILD constexpr auto operator/(X&& x, C c) {
  if constexpr (std::is_integral_v<C> && !is_floating<value_of_t<X>>) {
    if (c == 0) detail::fail_zero_constant();
    return detail::map_with_constant<C>(functor::divide_by_whole{static_cast<std::int64_t>(c)}, std::forward<X>(x));
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
template <class N, class C, class X>
GRADUS_OF_BUILD constexpr auto where_or(const C& condition, X&& x, N other, bool inverted) {
  static_assert(can_broadcast<shape_of<C>, shape_of<X>>, "where(condition, a, b): the shapes must broadcast together");
  static_assert(constant_fits_elements<N, value_of_t<X>>,
                "where(condition, a, b): beside integers a number must be whole");
  using number = std::conditional_t<std::is_integral_v<N> && !is_floating<value_of_t<X>>, std::int64_t, double>;
  return apply(op::map<functor::where_or<number>>{{static_cast<number>(other), inverted}}, condition,
               std::forward<X>(x));
}
}  // namespace detail
/// The same with a number in the place of a or b: `where(mask, scores, -1e9)`.
template <operand C, operand A, constant B>
GRADUS_OF_BUILD constexpr auto where(const C& condition, A&& a, B b) {
  return detail::where_or(condition, std::forward<A>(a), b, false);
}
template <operand C, constant A, operand B>
GRADUS_OF_BUILD constexpr auto where(const C& condition, A a, B&& b) {
  return detail::where_or(condition, std::forward<B>(b), a, true);
}

// Tensors are compared inside of map(). `auto`, so that the sentence comes first.
namespace detail {
template <class A, class B>
inline constexpr bool are_compared_in_map = false;
struct not_comparable {
  bool refused;
};
template <class A, class B>
concept compared = (operand<A> && operand<B>) || (operand<A> && std::is_arithmetic_v<std::remove_cvref_t<B>>) ||
                   (std::is_arithmetic_v<std::remove_cvref_t<A>> && operand<B>);
template <class A, class B>
constexpr bool refuse_comparison() {
  static_assert(
      are_compared_in_map<A, B>,
      "a > b, a == b: tensors are compared element by element in map(f, a, b), by select(a > b, x, y) in f; for one "
      "element, compare item(a)");
  return false;
}
}  // namespace detail
template <class A, class B>
  requires detail::compared<A, B>
GRADUS_OF_BUILD constexpr auto operator<(A&&, B&&) {
  return detail::refuse_comparison<A, B>();
}
template <class A, class B>
  requires detail::compared<A, B>
GRADUS_OF_BUILD constexpr auto operator>(A&&, B&&) {
  return detail::refuse_comparison<A, B>();
}
template <class A, class B>
  requires detail::compared<A, B>
GRADUS_OF_BUILD constexpr auto operator<=(A&&, B&&) {
  return detail::refuse_comparison<A, B>();
}
template <class A, class B>
  requires detail::compared<A, B>
GRADUS_OF_BUILD constexpr auto operator>=(A&&, B&&) {
  return detail::refuse_comparison<A, B>();
}
// Of a type that is no bool: std::equality_comparable is false for tensors, and asking it is no error.
template <class A, class B>
  requires detail::compared<A, B>
GRADUS_OF_BUILD constexpr detail::not_comparable operator==(A&&, B&&) {
  return detail::not_comparable{detail::refuse_comparison<A, B>()};
}
template <class A, class B>
  requires detail::compared<A, B>
GRADUS_OF_BUILD constexpr detail::not_comparable operator!=(A&&, B&&) {
  return detail::not_comparable{detail::refuse_comparison<A, B>()};
}

}  // namespace gradus
