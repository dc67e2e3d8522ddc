#pragma once
// Powers, exponentials, logarithms and activation functions, each a functor and a function that passes it to map().

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
/// a to the power b, element by element; the shapes broadcast.
template <operand A, operand B>
GRADUS_OF_BUILD constexpr auto pow(A&& a, B&& b) {
  static_assert(detail::shapes_broadcast<shape_of<A>, shape_of<B>>,
                "pow(a, b): the shapes of a and b must be equal, or 1 where they differ, axis by axis from the back");
  return apply(op::map<functor::pow>{}, std::forward<A>(a), std::forward<B>(b));
}
/// x to a constant power.
template <operand X>
GRADUS_OF_BUILD constexpr auto pow(X&& x, double exponent) {
  return apply(op::map<functor::pow_constant>{{exponent}}, std::forward<X>(x));
}

}  // namespace gradus
