#pragma once
// sin, cos and atan2 of packs. Floats are computed in double, half a pack at a time, and rounded once.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "../core/config.hpp"
#include "simd_rounding.hpp"

namespace gradus::inline GRADUS_BUILD {

namespace cpu_math {

// Largest |x| that the loop reduces: n pi/2 needs 20 bits of n.
inline constexpr float most_reduced = 1.6e6f;

/// sin(x + quarters pi/2) for |x| <= most_reduced. Cody and Waite's reduction: the first 33 bits of pi/2 times n are
/// exact, the next 53 leave an error of 2^-66. Taylor's polynomials have a relative error of 1e-11 up to pi/4.
template <std::size_t Half>
GRADUS_INLINE void sine_half(const float* x, int quarters, float* to) {
  using doubles = pack<double>;
  using bits = doubles::mask_native;
  constexpr std::int64_t shift_bits = 0x4338000000000000;
  const doubles shift(0x1.8p52);  // adding it rounds to an integer, in the low bits of the mantissa
  x += Half * doubles::size, to += Half * doubles::size;
  const doubles a = doubles::load(x);
  const doubles shifted = a * doubles(0.636619772367581343076) + shift;
  const doubles n = shifted - shift;
  const doubles r = (a - n * doubles(0x1.921fb544p0)) - n * doubles(6.07710050650619224932e-11);
  const doubles z = r * r;
  const doubles s = r * horner(z, -1.0 / 39916800, 1.0 / 362880, -1.0 / 5040, 1.0 / 120, -1.0 / 6, 1.0);
  const doubles c = horner(z, 1.0 / 479001600, -1.0 / 3628800, 1.0 / 40320, -1.0 / 720, 1.0 / 24, -0.5, 1.0);
  const bits quarter = bits_as<bits>(shifted.v) - shift_bits + quarters;
  const pack_mask<double> is_cosine((quarter & 1) != 0), is_negative((quarter & 2) != 0);
  const doubles y = select(is_cosine, c, s);
  select(is_negative, -y, y).store(to);
}
// Not inline, as pow_floats.
[[gnu::noinline]] inline void sine_floats(const float* x, int quarters, float* to) {
  if (all(abs(float_pack::load(x)) <= float_pack(most_reduced))) {
    sine_half<0>(x, quarters, to);
    sine_half<1>(x, quarters, to);
  } else {
    for (std::size_t i = 0; i < float_pack::size; ++i) to[i] = quarters == 0 ? std::sin(x[i]) : std::cos(x[i]);
  }
}

/// The angle of the point (x, y), where both are finite and not both 0.
template <std::size_t Half>
GRADUS_INLINE void angle_half(const float* y, const float* x, float* to) {
  using doubles = pack<double>;
  x += Half * doubles::size, y += Half * doubles::size, to += Half * doubles::size;
  const doubles b = doubles::load(y), a = doubles::load(x), zero(0.0), one(1.0);
  const doubles height = abs(b), width = abs(a);
  const auto steep = height > width;
  // The ratio t of the shorter side and the longer; above tan(pi/8): atan(t) = pi/4 + atan((t - 1) / (t + 1)).
  const doubles shorter = select(steep, width, height), longer = select(steep, height, width);
  const auto wide = shorter > longer * doubles(0.41421356237309505);
  const doubles u = select(wide, shorter - longer, shorter) / select(wide, shorter + longer, longer);
  const doubles z = u * u;
  // atan(u) / u from Chebyshev nodes, error 1e-12
  const doubles p = horner(z, -0.03765295735564257, 0.06974074586586436, -0.08992525131549388, 0.11103453786909732,
                           -0.14285386372125056, 0.19999993048454257, -0.3333333327686744, 0.9999999999992438);
  doubles angle = u * p + select(wide, doubles(0.785398163397448309616), zero);
  angle = select(steep, doubles(1.57079632679489661923) - angle, angle);
  angle = select(a < zero, doubles(3.14159265358979323846) - angle, angle);
  with_sign_of(angle, b).store(to);
}
[[gnu::noinline]] inline void angle_floats(const float* y, const float* x, float* to) {
  const float_pack a = float_pack::load(x), b = float_pack::load(y), zero(0.0f);
  if (all(a - a == zero && b - b == zero && (a != zero || b != zero))) {
    angle_half<0>(y, x, to);
    angle_half<1>(y, x, to);
  } else {
    for (std::size_t i = 0; i < float_pack::size; ++i) to[i] = std::atan2(y[i], x[i]);
  }
}

template <class T>
GRADUS_INLINE pack<T> sine(pack<T> x, int quarters) {
  T a[pack<T>::size];
  x.store(a);
  if constexpr (std::is_same_v<T, float>) sine_floats(a, quarters, a);
  else
    for (T& v : a) v = quarters == 0 ? std::sin(v) : std::cos(v);
  return pack<T>::load(a);
}

}  // namespace cpu_math

/// Sine and cosine; a pack with an element beyond 1.6 million, infinity or NaN is computed by the C library.
template <class T>
GRADUS_INLINE pack<T> sin(pack<T> x) {
  return cpu_math::sine(x, 0);
}
template <class T>
GRADUS_INLINE pack<T> cos(pack<T> x) {
  return cpu_math::sine(x, 1);
}
/// The angle of the point (x, y), with the C library's results at zeros, infinities and NaN.
template <class T>
GRADUS_INLINE pack<T> atan2(pack<T> y, pack<T> x) {
  T a[pack<T>::size], b[pack<T>::size];
  y.store(a);
  x.store(b);
  if constexpr (std::is_same_v<T, float>) cpu_math::angle_floats(a, b, a);
  else
    for (std::size_t i = 0; i < pack<T>::size; ++i) a[i] = std::atan2(a[i], b[i]);
  return pack<T>::load(a);
}

}  // namespace gradus::inline GRADUS_BUILD
