#pragma once
// A SIMD value type on the vector extension that g++, clang and nvcc's host side share. A pack is always 64 bytes wide; on
// processors with narrower registers the compiler splits it. Elementwise functors run on packs, scalars and duals alike.

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "../core/config.hpp"
#include "../core/dtype.hpp"

#if defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wpsabi"  // packs are only passed between functions that are inlined into one another
#endif

namespace gradus {

/// Lanes of T in a pack.
template <class T>
inline constexpr std::size_t lanes = 64 / sizeof(T);

/// 64 bytes of T, computed with lane by lane.
template <class T>
struct pack {
  using value_type = T;
  using native __attribute__((vector_size(64))) = T;
  using integer = std::conditional_t<sizeof(T) == 8, std::int64_t, std::int32_t>;
  using mask_native __attribute__((vector_size(64))) = integer;
  static constexpr std::size_t size = lanes<T>;

  native v;

  pack() = default;
  GRADUS_INLINE explicit pack(native x) : v(x) {}
  template <class U>
    requires std::is_arithmetic_v<U>
  GRADUS_INLINE explicit pack(U x)
      : v(static_cast<T>(x) - native{}) {}  // x - 0 is x for every x, so no subtraction is left

  /// Loads elements stored as S, converting to T.
  template <class S>
  static GRADUS_INLINE pack load(const S* from) {
    pack r;
    if constexpr (std::is_same_v<S, T>) std::memcpy(&r.v, from, sizeof(native));
    else
      for (std::size_t i = 0; i < size; ++i) r.v[i] = static_cast<T>(from[i]);
    return r;
  }
  /// Loads the first `count` lanes; the rest are zero, or `rest`.
  template <class S>
  static GRADUS_INLINE pack load(const S* from, std::size_t count) {
    T lanes_in[size] = {};
    for (std::size_t i = 0; i < count; ++i) lanes_in[i] = static_cast<T>(from[i]);
    return load(lanes_in);
  }
  template <class S>
  static GRADUS_INLINE pack load(const S* from, std::size_t count, T rest) {
    T lanes_in[size];
    for (std::size_t i = 0; i < size; ++i) lanes_in[i] = i < count ? static_cast<T>(from[i]) : rest;
    return load(lanes_in);
  }
  template <class S>
  GRADUS_INLINE void store(S* to) const {
    if constexpr (std::is_same_v<S, T>) std::memcpy(to, &v, sizeof(native));
    else
      for (std::size_t i = 0; i < size; ++i) to[i] = convert_element<S>(T{v[i]});
  }
  template <class S>
  GRADUS_INLINE void store(S* to, std::size_t count) const {
    T lanes_out[size];
    store(lanes_out);
    for (std::size_t i = 0; i < count; ++i) to[i] = convert_element<S>(lanes_out[i]);
  }
};

/// Lane-wise truth: all bits set or none.
template <class T>
struct pack_mask {
  typename pack<T>::mask_native m;
  GRADUS_INLINE pack_mask operator!() const { return {~m}; }
  GRADUS_INLINE pack_mask operator&&(pack_mask o) const { return {m & o.m}; }
  GRADUS_INLINE pack_mask operator||(pack_mask o) const { return {m | o.m}; }
};

template <class T>
GRADUS_INLINE pack<T> operator+(pack<T> a, pack<T> b) {
  return pack<T>(a.v + b.v);
}
template <class T>
GRADUS_INLINE pack<T> operator-(pack<T> a, pack<T> b) {
  return pack<T>(a.v - b.v);
}
template <class T>
GRADUS_INLINE pack<T> operator*(pack<T> a, pack<T> b) {
  return pack<T>(a.v * b.v);
}
template <class T>
GRADUS_INLINE pack<T> operator/(pack<T> a, pack<T> b) {
  return pack<T>(a.v / b.v);
}
template <class T>
GRADUS_INLINE pack<T> operator-(pack<T> a) {
  return pack<T>(-a.v);
}
template <class T>
GRADUS_INLINE pack_mask<T> operator<(pack<T> a, pack<T> b) {
  return {a.v < b.v};
}
template <class T>
GRADUS_INLINE pack_mask<T> operator>(pack<T> a, pack<T> b) {
  return {a.v > b.v};
}
template <class T>
GRADUS_INLINE pack_mask<T> operator<=(pack<T> a, pack<T> b) {
  return {a.v <= b.v};
}
template <class T>
GRADUS_INLINE pack_mask<T> operator>=(pack<T> a, pack<T> b) {
  return {a.v >= b.v};
}
template <class T>
GRADUS_INLINE pack_mask<T> operator==(pack<T> a, pack<T> b) {
  return {a.v == b.v};
}
template <class T>
GRADUS_INLINE pack_mask<T> operator!=(pack<T> a, pack<T> b) {
  return {a.v != b.v};
}

/// Lanes of `a` where the mask holds, of `b` elsewhere.
template <class T>
GRADUS_INLINE pack<T> select(pack_mask<T> m, pack<T> a, pack<T> b) {
  return pack<T>(m.m ? a.v : b.v);
}

namespace detail {
template <class T, class F>
GRADUS_INLINE pack<T> by_lane(pack<T> x, F f) {
  for (std::size_t i = 0; i < pack<T>::size; ++i) x.v[i] = f(T{x.v[i]});
  return x;
}
template <class To, class From>
GRADUS_INLINE To bits_as(const From& from) {
  To to;
  std::memcpy(&to, &from, sizeof(To));
  return to;
}
}  // namespace detail

// Functions that vector hardware does in one instruction, or that are not worth a polynomial, go lane by lane.
template <class T>
GRADUS_INLINE pack<T> log(pack<T> x) {
  return detail::by_lane(x, [](T a) { return std::log(a); });
}
template <class T>
GRADUS_INLINE pack<T> erf(pack<T> x) {
  return detail::by_lane(x, [](T a) { return std::erf(a); });
}
template <class T>
GRADUS_INLINE pack<T> abs(pack<T> x) {
  return select(x < pack<T>(0), -x, x + pack<T>(0));
}
template <class T>
GRADUS_INLINE pack<T> pow(pack<T> x, pack<T> y) {
  for (std::size_t i = 0; i < pack<T>::size; ++i) x.v[i] = std::pow(x.v[i], y.v[i]);
  return x;
}

/// Square root, correctly rounded. Every x86-64 processor has it as a vector instruction, which no compiler makes of
/// std::sqrt (it may set errno).
template <class T>
GRADUS_INLINE pack<T> sqrt(pack<T> x) {
#if defined(__SSE2__)
  constexpr std::size_t quarter = pack<T>::size / 4;
  T part[pack<T>::size];
  x.store(part);
  for (std::size_t i = 0; i < pack<T>::size; i += quarter) {
    if constexpr (std::is_same_v<T, float>) _mm_storeu_ps(part + i, _mm_sqrt_ps(_mm_loadu_ps(part + i)));
    else _mm_storeu_pd(part + i, _mm_sqrt_pd(_mm_loadu_pd(part + i)));
  }
  return pack<T>::load(part);
#else
  return detail::by_lane(x, [](T a) { return std::sqrt(a); });
#endif
}

/// e^x. Float: 2^n times a degree-7 polynomial on |r| <= ln(2)/2 (the classical Cody-Waite reduction), 1 ulp or so;
/// overflows to infinity, underflows through the subnormals to 0, keeps NaN.
template <class T>
GRADUS_INLINE pack<T> exp(pack<T> x) {
  if constexpr (!std::is_same_v<T, float>) {
    return detail::by_lane(x, [](T a) { return std::exp(a); });
  } else {
    using integers = typename pack<float>::mask_native;
    const pack<float> low(-104.0f), high(89.0f);
    x = select(x < low, low, x);
    x = select(x > high, high, x);
    const pack<float> shift(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer in the low mantissa bits
    const pack<float> t = x * pack<float>(1.44269504088896341f) + shift;
    const pack<float> n = t - shift;
    const pack<float> r = (x - n * pack<float>(0.693359375f)) - n * pack<float>(-2.12194440e-4f);
    pack<float> p(1.0f / 5040);
    p = p * r + pack<float>(1.0f / 720);
    p = p * r + pack<float>(1.0f / 120);
    p = p * r + pack<float>(1.0f / 24);
    p = p * r + pack<float>(1.0f / 6);
    p = p * r + pack<float>(0.5f);
    p = p * r * r + r + pack<float>(1.0f);
    const integers k =
        detail::bits_as<integers>(t.v) - 0x4B400000;  // n as integers; 2^n in two factors, so that both are normal
    const integers k1 = k >> 1;
    const integers k2 = k - k1;
    const auto f1 = detail::bits_as<typename pack<float>::native>((k1 + 127) << 23);
    const auto f2 = detail::bits_as<typename pack<float>::native>((k2 + 127) << 23);
    return pack<float>(p.v * f1 * f2);
  }
}

/// Hyperbolic tangent. Float: an odd polynomial below 0.625 (coefficients of the Cephes library), 1 - 2/(e^2x + 1) above.
template <class T>
GRADUS_INLINE pack<T> tanh(pack<T> x) {
  if constexpr (!std::is_same_v<T, float>) {
    return detail::by_lane(x, [](T a) { return std::tanh(a); });
  } else {
    const pack<float> one(1.0f);
    const pack<float> a = abs(x);
    const pack<float> large = one - pack<float>(2.0f) / (exp(a + a) + one);
    const pack<float> z = x * x;
    pack<float> p(-5.70498872745e-3f);
    p = p * z + pack<float>(2.06390887954e-2f);
    p = p * z + pack<float>(-5.37397155531e-2f);
    p = p * z + pack<float>(1.33314422036e-1f);
    p = p * z + pack<float>(-3.33332819422e-1f);
    const pack<float> small = x * (z * p) + x;
    return select(x == pack<float>(0), x,
                  select(a < pack<float>(0.625f), small, select(x < pack<float>(0), -large, large)));
  }
}

/// Sum and largest of the lanes, in a fixed order.
template <class T>
GRADUS_INLINE T sum_lanes(pack<T> x) {
  T part[pack<T>::size];
  x.store(part);
  for (std::size_t width = pack<T>::size / 2; width > 0; width /= 2)
    for (std::size_t i = 0; i < width; ++i) part[i] += part[i + width];
  return part[0];
}
template <class T>
GRADUS_INLINE T max_lanes(pack<T> x) {
  T part[pack<T>::size];
  x.store(part);
  T best = part[0];
  for (std::size_t i = 1; i < pack<T>::size; ++i) best = part[i] > best ? part[i] : best;
  return best;
}

}  // namespace gradus
