#pragma once
// Powers, exponentials, logarithms, trigonometric, rounding and activation functions: each a functor, and a function
// that passes it to map().

#include <cstddef>
#include <string_view>
#include <utility>

#include "../../core/config.hpp"
#include "../../core/math.hpp"
#include "elementwise.hpp"

namespace gradus {

namespace functor {

// clang-format off
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
/// silu(gate) * x.
struct swiglu { static constexpr std::string_view name = "swiglu";
  static constexpr bool floating_only = true, coarse_form = true; static constexpr std::size_t flops = 14;
  template <class T> GRADUS_HD T operator()(T gate, T x) const { using math::silu; return silu(gate) * x; } };
/// Hendrycks and Gimpel 2016, the tanh form that GPT-2 uses.
struct gelu { static constexpr std::string_view name = "gelu";
  static constexpr bool floating_only = true, coarse_form = true; static constexpr std::size_t flops = 18;
  template <class T> GRADUS_HD T operator()(T x) const { using math::gelu; return gelu(x); } };
/// x * Phi(x), exactly, with the error function.
struct gelu_erf { static constexpr std::string_view name = "gelu_erf";
  static constexpr bool floating_only = true; static constexpr std::size_t flops = 18;
  template <class T> GRADUS_HD T operator()(T x) const { using math::gelu_erf; return gelu_erf(x); } };
/// The error function.
struct erf { static constexpr std::string_view name = "erf";
  static constexpr bool floating_only = true; static constexpr std::size_t flops = 16;
  template <class T> GRADUS_HD T operator()(T x) const { using math::erf; return erf(x); } };
/// Sine of an angle in radians.
struct sin { static constexpr std::string_view name = "sin";
  static constexpr bool floating_only = true; static constexpr std::size_t flops = 14;
  template <class T> GRADUS_HD T operator()(T x) const { using math::sin; return sin(x); } };
/// Cosine of an angle in radians.
struct cos { static constexpr std::string_view name = "cos";
  static constexpr bool floating_only = true; static constexpr std::size_t flops = 14;
  template <class T> GRADUS_HD T operator()(T x) const { using math::cos; return cos(x); } };
/// The angle of the point (x, y).
struct atan2 { static constexpr std::string_view name = "atan2";
  static constexpr bool floating_only = true; static constexpr std::size_t flops = 20;
  template <class T> GRADUS_HD T operator()(T y, T x) const { using math::atan2; return atan2(y, x); } };
/// log(1 + x).
struct log1p { static constexpr std::string_view name = "log1p";
  static constexpr bool floating_only = true, full = true; static constexpr std::size_t flops = 14;
  template <class T> GRADUS_HD T operator()(T x) const { using math::log1p; return log1p(x); } };
/// e^x - 1.
struct expm1 { static constexpr std::string_view name = "expm1";
  static constexpr bool floating_only = true, full = true; static constexpr std::size_t flops = 12;
  template <class T> GRADUS_HD T operator()(T x) const { using math::expm1; return expm1(x); } };
/// log(1 + e^x).
struct softplus { static constexpr std::string_view name = "softplus";
  static constexpr bool floating_only = true, full = true; static constexpr std::size_t flops = 24;
  template <class T> GRADUS_HD T operator()(T x) const { using math::softplus; return softplus(x); } };
// Their derivative is 0: `linear` saves nothing for it, and with `selects` no gradient of infinity or NaN passes.
/// The largest integer that is not above x.
struct floor { static constexpr std::string_view name = "floor";
  static constexpr bool floating_only = true, linear = true, selects = true;
  template <class T> GRADUS_HD T operator()(T x) const { using math::floor; return floor(x); } };
/// The smallest integer that is not below x.
struct ceil { static constexpr std::string_view name = "ceil";
  static constexpr bool floating_only = true, linear = true, selects = true;
  template <class T> GRADUS_HD T operator()(T x) const { using math::ceil; return ceil(x); } };
/// The nearest integer, the even one of two.
struct round { static constexpr std::string_view name = "round";
  static constexpr bool floating_only = true, linear = true, selects = true;
  template <class T> GRADUS_HD T operator()(T x) const { using math::round; return round(x); } };
/// 1, -1, or x itself if it is a zero or NaN.
struct sign { static constexpr std::string_view name = "sign";
  static constexpr bool linear = true, selects = true;
  template <class T> GRADUS_HD T operator()(T x) const { using math::sign; return sign(x); } };
/// x to the power y.
struct pow { static constexpr std::string_view name = "pow";
  static constexpr bool floating_only = true, full = true; static constexpr std::size_t flops = 20;
  template <class T> GRADUS_HD T operator()(T x, T y) const { using math::pow; return pow(x, y); } };
/// x to the power of a run-time constant; squares and cubes are products.
struct pow_constant { static constexpr std::string_view name = "pow_constant";
  double exponent; static constexpr bool floating_only = true, full = true; static constexpr std::size_t flops = 20;
  template <class T> GRADUS_HD T operator()(T x) const {
    using math::pow;
    if (exponent == 2) return x * x;
    if (exponent == 3) return x * x * x;
    return pow(x, T(exponent));
  } };
// clang-format on

}  // namespace functor

#define GRADUS_UNARY(function)                                      \
  template <operand X>                                              \
  GRADUS_OF_BUILD constexpr auto function(X&& x) {                  \
    return apply(op::map<functor::function>{}, std::forward<X>(x)); \
  }
/// e to the power x.
GRADUS_UNARY(exp)
/// Natural logarithm.
GRADUS_UNARY(log)
/// Square root.
GRADUS_UNARY(sqrt)
/// One over the square root.
GRADUS_UNARY(rsqrt)
/// Absolute value; its derivative at 0 is 0.
GRADUS_UNARY(abs)
/// Hyperbolic tangent.
GRADUS_UNARY(tanh)
/// 1 / (1 + e^-x).
GRADUS_UNARY(sigmoid)
/// max(x, 0); its derivative at 0 is 0.
GRADUS_UNARY(relu)
/// x * sigmoid(x) (Elfwing et al. 2017).
GRADUS_UNARY(silu)
/// Gaussian error linear unit, tanh form (Hendrycks and Gimpel 2016).
GRADUS_UNARY(gelu)
/// Gaussian error linear unit, exact form.
GRADUS_UNARY(gelu_erf)
/// The error function.
GRADUS_UNARY(erf)
/// Sine of an angle in radians.
GRADUS_UNARY(sin)
/// Cosine of an angle in radians.
GRADUS_UNARY(cos)
/// log(1 + x), accurate for small x.
GRADUS_UNARY(log1p)
/// e^x - 1, accurate for small x.
GRADUS_UNARY(expm1)
/// log(1 + e^x), without overflow.
GRADUS_UNARY(softplus)
/// The largest integer that is not above x, as a floating-point number; its derivative is 0.
GRADUS_UNARY(floor)
/// The smallest integer that is not below x; its derivative is 0.
GRADUS_UNARY(ceil)
/// The nearest integer, the even one of two; its derivative is 0.
GRADUS_UNARY(round)
/// 1 where x is positive, -1 where it is negative, x where it is a zero or NaN; its derivative is 0.
GRADUS_UNARY(sign)
#undef GRADUS_UNARY

/// silu(gate) * x, in one pass (Shazeer, "GLU Variants Improve Transformer", 2020).
template <operand Gate, operand X>
GRADUS_OF_BUILD constexpr auto swiglu(Gate&& gate, X&& x) {
  return map(functor::swiglu{}, std::forward<Gate>(gate), std::forward<X>(x));
}
/// The angle of the point (x, y), from -pi to pi; the shapes broadcast.
template <operand Y, operand X>
GRADUS_OF_BUILD constexpr auto atan2(Y&& y, X&& x) {
  GRADUS_REQUIRE("atan2(y, x): the shapes of y and x must be equal, or 1 where they differ, axis by axis from the back",
                 detail::shapes_broadcast<shape_of<Y>, shape_of<X>>)
  return apply(op::map<functor::atan2>{}, std::forward<Y>(y), std::forward<X>(x));
}
/// a to the power b, element by element; the shapes broadcast.
template <operand A, operand B>
GRADUS_OF_BUILD constexpr auto pow(A&& a, B&& b) {
  GRADUS_REQUIRE("pow(a, b): the shapes of a and b must be equal, or 1 where they differ, axis by axis from the back",
                 detail::shapes_broadcast<shape_of<A>, shape_of<B>>)
  return apply(op::map<functor::pow>{}, std::forward<A>(a), std::forward<B>(b));
}
/// x to a constant power.
template <operand X>
GRADUS_OF_BUILD constexpr auto pow(X&& x, double exponent) {
  return apply(op::map<functor::pow_constant>{{exponent}}, std::forward<X>(x));
}

}  // namespace gradus
