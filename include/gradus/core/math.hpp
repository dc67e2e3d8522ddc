#pragma once
// Scalar functions under the names that elementwise functors use. Inside a functor write `using gradus::math::exp;` and call
// exp(x): for packs and duals the overload beside them is found by argument-dependent lookup.

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "config.hpp"

namespace gradus::math {

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
GRADUS_HD inline std::int32_t abs(std::int32_t x) { return x < 0 ? -x : x; }
GRADUS_HD inline std::int64_t abs(std::int64_t x) { return x < 0 ? -x : x; }
GRADUS_HD inline float pow(float x, float y) { return ::powf(x, y); }
GRADUS_HD inline double pow(double x, double y) { return ::pow(x, y); }
// clang-format on

/// `a` where the condition holds, `b` elsewhere; the form of ?: that also works lane by lane.
template <class T>
  requires std::is_arithmetic_v<T>
GRADUS_HD constexpr T select(bool condition, T a, T b) {
  return condition ? a : b;
}

}  // namespace gradus::math
