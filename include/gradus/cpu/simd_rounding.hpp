#pragma once
// Packs rounded to integers, exactly: floor, ceil, round; and sign.

#include <limits>

#include "../core/config.hpp"
#include "simd_math.hpp"

namespace gradus::inline GRADUS_BUILD {

namespace cpu_math {
/// `magnitude`, which has no sign, with the sign of x.
template <class T>
GRADUS_INLINE pack<T> with_sign_of(pack<T> magnitude, pack<T> x) {
  using bits = typename pack<T>::mask_native;
  return pack<T>(
      bits_as<typename pack<T>::native>(bits_as<bits>(magnitude.v) | (bits_as<bits>(x.v) ^ bits_as<bits>(abs(x).v))));
}
}  // namespace cpu_math

/// The nearest integer, the even one of two. Keeps the sign of zero, infinities and NaN.
template <class T>
GRADUS_INLINE pack<T> round(pack<T> x) {
  // Above 2^(digits - 1) all numbers are integers; below, adding it leaves no bits of a fraction.
  const pack<T> whole(T(1) / std::numeric_limits<T>::epsilon()), size = abs(x);
  return select(size < whole, cpu_math::with_sign_of((size + whole) - whole, x), x);
}
/// The largest integer that is not above x.
template <class T>
GRADUS_INLINE pack<T> floor(pack<T> x) {
  const pack<T> nearest = round(x);
  return select(nearest > x, nearest - pack<T>(1), nearest);
}
/// The smallest integer that is not below x.
template <class T>
GRADUS_INLINE pack<T> ceil(pack<T> x) {
  return -floor(-x);
}
/// 1, -1, or x itself if it is a zero or NaN.
template <class T>
GRADUS_INLINE pack<T> sign(pack<T> x) {
  return select(x > pack<T>(0), pack<T>(1), select(x < pack<T>(0), pack<T>(-1), x));
}

}  // namespace gradus::inline GRADUS_BUILD
