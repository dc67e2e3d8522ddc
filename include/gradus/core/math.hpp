#pragma once
// Scalar functions for functors. Write `using gradus::math::exp;` and exp(x), which also finds the overloads of packs.

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "config.hpp"
#include "error.hpp"

namespace gradus::math {

// Integers wrap around on overflow (two's complement).
template <class T>
  requires std::is_integral_v<T>
GRADUS_HD constexpr T wrapping_add(T a, T b) {
  using U = std::make_unsigned_t<T>;
  return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
}
template <class T>
  requires std::is_integral_v<T>
GRADUS_HD constexpr T wrapping_subtract(T a, T b) {
  using U = std::make_unsigned_t<T>;
  return static_cast<T>(static_cast<U>(a) - static_cast<U>(b));
}
template <class T>
  requires std::is_integral_v<T>
GRADUS_HD constexpr T wrapping_multiply(T a, T b) {
  using U = std::make_unsigned_t<T>;
  using W = std::common_type_t<U, unsigned>;  // a product of two short ones would overflow int
  return static_cast<T>(static_cast<W>(static_cast<U>(a)) * static_cast<W>(static_cast<U>(b)));
}

namespace detail {
[[noreturn]] GRADUS_NOINLINE inline void fail_zero_divisor() {
  throw error("a / b: the operands are integers, and an element of b is 0");
}
}  // namespace detail

/// a / b of integers, truncated; the smallest number over -1 wraps around. Throws error if b is 0; on a GPU returns 0.
template <class T>
  requires std::is_integral_v<T>
GRADUS_HD constexpr T quotient(T a, T b) {
  if (b == 0) {
#if GRADUS_GPU_PASS
    return 0;
#else
    detail::fail_zero_divisor();
#endif
  }
  return b == T(-1) ? wrapping_subtract(T(0), a) : static_cast<T>(a / b);
}

/// The smallest T that is not below x, and the largest that is not above it: the limits of T for x outside of them, and
/// for NaN.
template <class T>
  requires std::is_integral_v<T>
GRADUS_HD constexpr T whole_at_least(double x) {
  constexpr T least = std::numeric_limits<T>::min(), most = std::numeric_limits<T>::max();
  if (!(x > static_cast<double>(least))) return least;
  if (!(x < static_cast<double>(most))) return most;
  const T truncated = static_cast<T>(x);
  return static_cast<T>(static_cast<double>(truncated) < x ? truncated + 1 : truncated);
}
template <class T>
  requires std::is_integral_v<T>
GRADUS_HD constexpr T whole_at_most(double x) {
  constexpr T least = std::numeric_limits<T>::min(), most = std::numeric_limits<T>::max();
  if (!(x < static_cast<double>(most))) return most;
  if (!(x > static_cast<double>(least))) return least;
  const T truncated = static_cast<T>(x);
  return static_cast<T>(static_cast<double>(truncated) > x ? truncated - 1 : truncated);
}

// clang-format off
GRADUS_HD inline float exp(float x) { return ::expf(x); }
GRADUS_HD inline double exp(double x) { return ::exp(x); }
GRADUS_HD inline float log(float x) { return ::logf(x); }
GRADUS_HD inline double log(double x) { return ::log(x); }
GRADUS_HD inline float sqrt(float x) { return ::sqrtf(x); }
GRADUS_HD inline double sqrt(double x) { return ::sqrt(x); }
GRADUS_HD inline float tanh(float x) { return ::tanhf(x); }
GRADUS_HD inline double tanh(double x) { return ::tanh(x); }
GRADUS_HD inline float erf(float x) { return ::erff(x); }
GRADUS_HD inline double erf(double x) { return ::erf(x); }
GRADUS_HD inline float abs(float x) { return ::fabsf(x); }
GRADUS_HD inline double abs(double x) { return ::fabs(x); }
GRADUS_HD constexpr std::int32_t abs(std::int32_t x) { return x < 0 ? wrapping_subtract(0, x) : x; }
GRADUS_HD constexpr std::int64_t abs(std::int64_t x) { return x < 0 ? wrapping_subtract(std::int64_t{0}, x) : x; }
GRADUS_HD inline float sin(float x) { return ::sinf(x); }
GRADUS_HD inline double sin(double x) { return ::sin(x); }
GRADUS_HD inline float cos(float x) { return ::cosf(x); }
GRADUS_HD inline double cos(double x) { return ::cos(x); }
GRADUS_HD inline float atan2(float y, float x) { return ::atan2f(y, x); }
GRADUS_HD inline double atan2(double y, double x) { return ::atan2(y, x); }
GRADUS_HD inline float log1p(float x) { return ::log1pf(x); }
GRADUS_HD inline double log1p(double x) { return ::log1p(x); }
GRADUS_HD inline float expm1(float x) { return ::expm1f(x); }
GRADUS_HD inline double expm1(double x) { return ::expm1(x); }
GRADUS_HD inline float floor(float x) { return ::floorf(x); }
GRADUS_HD inline double floor(double x) { return ::floor(x); }
GRADUS_HD inline float ceil(float x) { return ::ceilf(x); }
GRADUS_HD inline double ceil(double x) { return ::ceil(x); }
/// The nearest integer, the even one of two.
GRADUS_HD inline float round(float x) { return ::rintf(x); }
GRADUS_HD inline double round(double x) { return ::rint(x); }
/// 1, -1, or x itself if it is a zero or NaN.
template <class T>
  requires std::is_arithmetic_v<T>
GRADUS_HD constexpr T sign(T x) {
  return x > T(0) ? T(1) : x < T(0) ? static_cast<T>(-1) : x;
}
GRADUS_HD inline float pow(float x, float y) { return ::powf(x, y); }
GRADUS_HD inline double pow(double x, double y) { return ::pow(x, y); }
// clang-format on

// Functions that the C library lacks. In double, rounded once for float; on a GPU, where double is slow, float is
// within a few ulp where the result is not small, and |x| times that in the lower tails.

/// 1 / (1 + e^-x).
GRADUS_HD inline double sigmoid(double x) {
  const double e = ::exp(-::fabs(x));
  return (x < 0 ? e : 1.0) / (1.0 + e);
}
GRADUS_HD inline float sigmoid(float x) {
  if constexpr (GRADUS_GPU_PASS) return 1.0f / (1.0f + ::expf(-x));
  else return static_cast<float>(sigmoid(static_cast<double>(x)));
}
/// x sigmoid(x); 0 at minus infinity.
GRADUS_HD inline double silu(double x) { return (x < -800 ? -800.0 : x) * sigmoid(x); }
GRADUS_HD inline float silu(float x) {
  if constexpr (GRADUS_GPU_PASS) return x / (1.0f + ::expf(-x));
  else return static_cast<float>(silu(static_cast<double>(x)));
}
/// x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), which is x sigmoid(x (c1 + c3 x^2)); 0 at minus infinity.
GRADUS_HD inline double gelu(double x) {
  return (x < -40 ? -40.0 : x) * sigmoid(x * (1.59576912160573071176 + 0.07135481627260024878 * x * x));
}
GRADUS_HD inline float gelu(float x) {
  if constexpr (GRADUS_GPU_PASS) return x / (1.0f + ::expf(-x * (1.59576912160573f + 0.07135481627f * x * x)));
  else return static_cast<float>(gelu(static_cast<double>(x)));
}
/// log(1 + e^x).
GRADUS_HD inline double softplus(double x) { return (x > 0 ? x : 0.0) + ::log1p(::exp(-::fabs(x))); }
GRADUS_HD inline float softplus(float x) {
  if constexpr (GRADUS_GPU_PASS) return (x > 0 ? x : 0.0f) + ::log1pf(::expf(-::fabsf(x)));
  else return static_cast<float>(softplus(static_cast<double>(x)));
}
/// The standard normal distribution function: P(Z < x).
GRADUS_HD inline double normal_cdf(double x) { return 0.5 * ::erfc(x * -0.70710678118654752440); }
GRADUS_HD inline float normal_cdf(float x) {
  if constexpr (GRADUS_GPU_PASS) return 0.5f * ::erfcf(x * -0.707106781f);
  else return static_cast<float>(normal_cdf(static_cast<double>(x)));
}
/// x normal_cdf(x); 0 at minus infinity.
GRADUS_HD inline double gelu_erf(double x) { return (x < -40 ? -40.0 : x) * normal_cdf(x); }
GRADUS_HD inline float gelu_erf(float x) {
  if constexpr (GRADUS_GPU_PASS) return x * normal_cdf(x);
  else return static_cast<float>(gelu_erf(static_cast<double>(x)));
}

/// `a` where the condition holds, `b` elsewhere: a ?: that also works lane by lane.
template <class T>
  requires std::is_arithmetic_v<T>
GRADUS_HD constexpr T select(bool condition, T a, T b) {
  return condition ? a : b;
}
/// Numbers of two types convert to their common type: `select(x > 0, x, 0.1 * x)`.
template <class A, class B>
  requires(std::is_arithmetic_v<A> && std::is_arithmetic_v<B> && !std::is_same_v<A, B>)
GRADUS_HD constexpr auto select(bool condition, A a, B b) {
  using C = std::common_type_t<A, B>;
  return condition ? static_cast<C>(a) : static_cast<C>(b);
}
template <class A, class B>
  requires(std::is_arithmetic_v<A> && std::is_arithmetic_v<B> && !std::is_same_v<A, B>)
GRADUS_HD auto pow(A x, B y) {
  using C = std::conditional_t<std::is_same_v<A, float> || std::is_same_v<B, float>, float, double>;
  return pow(static_cast<C>(x), static_cast<C>(y));
}

}  // namespace gradus::math
