#pragma once
// Packs of float that compute exp, tanh, sigmoid, silu and gelu approximately, for results of 16 bits.

#include <type_traits>

#include "../core/config.hpp"
#include "simd_math.hpp"

namespace gradus::inline GRADUS_BUILD {

/// A pack of floats for functors with `coarse_form = true` whose result has 16 bits: exp and functions built on it have
/// relative errors of a few parts in 100,000, for half the instructions. All other operations are pack's.
class coarse_pack : public functor_number {
 public:
  coarse_pack() = default;
  GRADUS_INLINE explicit coarse_pack(pack<float> x) : x_(x) {}
  template <class U>
    requires std::is_arithmetic_v<U>
  GRADUS_INLINE explicit(gradus::detail::converts_when_asked<U>) coarse_pack(U x) : x_(x) {}
  GRADUS_INLINE explicit operator pack<float>() const { return x_; }

  friend GRADUS_INLINE coarse_pack operator+(coarse_pack a, coarse_pack b) { return coarse_pack(a.x_ + b.x_); }
  friend GRADUS_INLINE coarse_pack operator-(coarse_pack a, coarse_pack b) { return coarse_pack(a.x_ - b.x_); }
  friend GRADUS_INLINE coarse_pack operator*(coarse_pack a, coarse_pack b) { return coarse_pack(a.x_ * b.x_); }
  friend GRADUS_INLINE coarse_pack operator/(coarse_pack a, coarse_pack b) { return coarse_pack(a.x_ / b.x_); }
  friend GRADUS_INLINE coarse_pack operator-(coarse_pack a) { return coarse_pack(-a.x_); }
  friend GRADUS_INLINE pack_mask<float> operator<(coarse_pack a, coarse_pack b) { return a.x_ < b.x_; }
  friend GRADUS_INLINE pack_mask<float> operator>(coarse_pack a, coarse_pack b) { return a.x_ > b.x_; }
  friend GRADUS_INLINE pack_mask<float> operator<=(coarse_pack a, coarse_pack b) { return a.x_ <= b.x_; }
  friend GRADUS_INLINE pack_mask<float> operator>=(coarse_pack a, coarse_pack b) { return a.x_ >= b.x_; }
  friend GRADUS_INLINE pack_mask<float> operator!=(coarse_pack a, coarse_pack b) { return a.x_ != b.x_; }
  friend GRADUS_INLINE pack_mask<float> operator==(coarse_pack a, coarse_pack b) { return a.x_ == b.x_; }
  friend GRADUS_INLINE coarse_pack select(pack_mask<float> m, coarse_pack a, coarse_pack b) {
    return coarse_pack(select(m, a.x_, b.x_));
  }
  friend GRADUS_INLINE coarse_pack abs(coarse_pack a) { return coarse_pack(abs(a.x_)); }

  friend GRADUS_INLINE coarse_pack exp(coarse_pack a) {
    const P most(89.0f);  // exp overflows here
    return coarse_pack(falling_exp<bf16>(select(a.x_ > most, most, a.x_)));
  }
  friend GRADUS_INLINE coarse_pack tanh(coarse_pack a) {
    const P x = a.x_, size = abs(x), z = x * x, one(1.0f);
    const P e = falling_exp<bf16>(size * P(-2.0f));
    const P large = (one - e) / (one + e);
    const P of_small = x * cpu_math::horner(z, -17 / 315.0f, 2 / 15.0f, -1 / 3.0f, 1.0f);
    return coarse_pack(select(size < P(0.25f), of_small, select(x < P(0), -large, large)));
  }
  friend GRADUS_INLINE coarse_pack sigmoid(coarse_pack a) { return coarse_pack(times_sigmoid(P(1.0f), a.x_)); }
  friend GRADUS_INLINE coarse_pack silu(coarse_pack a) {
    return coarse_pack(times_sigmoid(held(a.x_, P(-90.0f)), a.x_));
  }
  friend GRADUS_INLINE coarse_pack gelu(coarse_pack a) {
    const P x = held(a.x_, P(-12.0f));
    return coarse_pack(times_sigmoid(x, x * (P(1.59576912160573071f) + P(0.0713548162726002f) * x * x)));
  }

 private:
  using P = pack<float>;
  static GRADUS_INLINE P held(P x, P least) { return select(x < least, least, x); }
  // x sigmoid(v) by e^-|v|: no cancellation in either tail.
  static GRADUS_INLINE P times_sigmoid(P x, P v) {
    const P e = falling_exp<bf16>(-abs(v)), d = x / (P(1.0f) + e);
    return select(v < P(0), d * e, d);
  }

  P x_;
};

}  // namespace gradus::inline GRADUS_BUILD
