#pragma once
// A float that computes exp, tanh, sigmoid, silu, gelu and quotients by a GPU's approximations, for 16-bit results.

#include <cuda_runtime.h>

#include <type_traits>

#include "../core/dual.hpp"

namespace gradus::cuda_kit {

/// 2^x and 1 / x in one instruction, with relative errors of 2 and 1 ulp (PTX ISA, ex2.approx and rcp.approx). Operands
/// and results below 2^-126 are 0.
__device__ inline float coarse_exp2(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}
__device__ inline float coarse_reciprocal(float x) {
  float reciprocal;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(reciprocal) : "f"(x));
  return reciprocal;
}
/// e^x; the product with log2(e) adds a relative error of |x| / 2^24.
__device__ inline float coarse_exp(float x) { return coarse_exp2(x * 1.44269504f); }

/// The number for functors with `coarse_form = true` whose result has 16 bits, as coarse_pack on the CPU: exp,
/// quotients and functions built on them have relative errors of a few parts in 1,000,000, the derivatives of silu and
/// gelu as much of the derivative's largest value. All other operations are as in float.
class coarse_number : public functor_number {
 public:
  coarse_number() = default;
  template <class U>
    requires std::is_arithmetic_v<U>
  __device__ explicit(gradus::detail::converts_when_asked<U>) coarse_number(U x) : x_(static_cast<float>(x)) {}
  __device__ explicit operator float() const { return x_; }

  // clang-format off
  friend __device__ coarse_number operator+(coarse_number a, coarse_number b) { return a.x_ + b.x_; }
  friend __device__ coarse_number operator-(coarse_number a, coarse_number b) { return a.x_ - b.x_; }
  friend __device__ coarse_number operator*(coarse_number a, coarse_number b) { return a.x_ * b.x_; }
  friend __device__ coarse_number operator/(coarse_number a, coarse_number b) { return a.x_ * coarse_reciprocal(b.x_); }
  friend __device__ coarse_number operator-(coarse_number a) { return -a.x_; }
  friend __device__ bool operator<(coarse_number a, coarse_number b) { return a.x_ < b.x_; }
  friend __device__ bool operator>(coarse_number a, coarse_number b) { return a.x_ > b.x_; }
  friend __device__ bool operator<=(coarse_number a, coarse_number b) { return a.x_ <= b.x_; }
  friend __device__ bool operator>=(coarse_number a, coarse_number b) { return a.x_ >= b.x_; }
  friend __device__ bool operator==(coarse_number a, coarse_number b) { return a.x_ == b.x_; }
  friend __device__ bool operator!=(coarse_number a, coarse_number b) { return a.x_ != b.x_; }
  friend __device__ coarse_number select(bool m, coarse_number a, coarse_number b) { return m ? a : b; }
  friend __device__ coarse_number abs(coarse_number a) { return ::fabsf(a.x_); }
  // clang-format on

  friend __device__ coarse_number exp(coarse_number a) { return coarse_exp(a.x_); }
  friend __device__ coarse_number tanh(coarse_number a) {
    const float size = ::fabsf(a.x_), z = size * size, e = coarse_exp(-2 * size);
    const float of_small = size + size * z * (-1 / 3.0f + z * (2 / 15.0f - z * (17 / 315.0f)));
    return ::copysignf(size < 0.25f ? of_small : (1 - e) * coarse_reciprocal(1 + e), a.x_);
  }
  friend __device__ coarse_number sigmoid(coarse_number a) { return sigmoid_of(-log2_e * a.x_); }
  friend __device__ coarse_number silu(coarse_number a) {
    return (a.x_ < -90 ? -90 : a.x_) * sigmoid_of(-log2_e * a.x_);
  }
  friend __device__ coarse_number gelu(coarse_number a) {
    const float x = a.x_ < -12 ? -12 : a.x_;
    return x * sigmoid_of(-x * (linear + cubic * x * x));
  }
  // (x sigmoid(v))' = s + x s (1 - s) v'
  template <int N>
  friend __device__ dual<coarse_number, N> silu(const dual<coarse_number, N>& a) {
    const float x = held(a.value.x_, 90), s = sigmoid_of(-log2_e * x);
    return gradus::detail::chain<coarse_number>(silu(a.value), a, s + s * (1 - s) * x);
  }
  template <int N>
  friend __device__ dual<coarse_number, N> gelu(const dual<coarse_number, N>& a) {
    const float x = held(a.value.x_, 12), square = x * x, s = sigmoid_of(-x * (linear + cubic * square));
    const float slope = linear / log2_e + 3 * cubic / log2_e * square;
    return gradus::detail::chain<coarse_number>(gelu(a.value), a, s + s * (1 - s) * (x * slope));
  }

 private:
  static constexpr float log2_e = 1.44269504f;
  // gelu(x) = x sigmoid(v) with v log2(e) = linear x + cubic x^3
  static constexpr float linear = 1.59576912f * log2_e, cubic = 0.0713548163f * log2_e;
  static __device__ float held(float x, float bound) { return x > bound ? bound : x < -bound ? -bound : x; }
  // sigmoid(v) by the power of two e^-v
  static __device__ float sigmoid_of(float minus_v_in_base_2) {
    return coarse_reciprocal(1 + coarse_exp2(minus_v_in_base_2));
  }

  float x_;
};

}  // namespace gradus::cuda_kit
