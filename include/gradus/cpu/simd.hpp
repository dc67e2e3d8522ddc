#pragma once
// pack<T>: a SIMD register as a value, on the vector extension of g++, clang and nvcc's host compiler. Its width, part
// of the type, is the width of the target processor's registers. Elementwise functors run on packs.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "../core/config.hpp"
#include "../core/dtype.hpp"
#include "../core/functor_number.hpp"
#include "convert.hpp"

namespace gradus::inline GRADUS_BUILD {

/// Bytes of a SIMD register.
#if defined(__AVX512F__)
inline constexpr std::size_t register_bytes = 64;
#elif defined(__AVX2__)
inline constexpr std::size_t register_bytes = 32;
#else
inline constexpr std::size_t register_bytes = 16;
#endif

/// A register of T with lane-wise arithmetic.
template <class T, std::size_t Bytes = register_bytes>
struct pack : functor_number {
  using value_type = T;
  using native __attribute__((vector_size(Bytes))) = T;
  using integer = std::conditional_t<sizeof(T) == 8, std::int64_t, std::int32_t>;
  using mask_native __attribute__((vector_size(Bytes))) = integer;
  static constexpr std::size_t size = Bytes / sizeof(T);

  native v;

  pack() = default;
  GRADUS_INLINE explicit pack(native x) : v(x) {}
  template <class U>
    requires std::is_arithmetic_v<U>
  GRADUS_INLINE explicit(gradus::detail::converts_when_asked<U>) pack(U x)
      : v(static_cast<T>(x) - native{}) {}  // x - 0 is x for every x: compiled to a broadcast

  /// Loads elements stored as S, converting to T.
  template <class S>
  static GRADUS_INLINE pack load(const S* from) {
    pack r;
    if constexpr (is_vectorised<S> || (std::is_integral_v<S> && std::is_integral_v<T>))
      cpu_kit::load_as<T, size>(from, r.v);
    else
      for (std::size_t i = 0; i < size; ++i) r.v[i] = static_cast<T>(from[i]);
    return r;
  }
  /// Loads the first `count` lanes, at most `size`; the rest are 0.
  template <class S>
  static GRADUS_INLINE pack load(const S* from, std::size_t count) {
    if (count >= size) return load(from);
    std::conditional_t<is_vectorised<S>, S, T> lanes_in[size];
    if constexpr (is_vectorised<S>) cpu_kit::read_first(from, count, lanes_in);
    else
      for (std::size_t i = 0; i < size; ++i) lanes_in[i] = i < count ? static_cast<T>(from[i]) : T(0);
    return load(lanes_in);
  }
  template <class S>
  GRADUS_INLINE void store(S* to) const {
    if constexpr (is_vectorised<S>) cpu_kit::store_as<T, size>(v, to);
    else
      for (std::size_t i = 0; i < size; ++i) to[i] = convert_element<S>(T{v[i]});
  }
  template <class S>
  GRADUS_INLINE void store(S* to, std::size_t count) const {
    if (count >= size) return store(to);
    std::conditional_t<is_vectorised<S>, S, T> lanes_out[size];
    store(lanes_out);
    if constexpr (is_vectorised<S>) cpu_kit::write_first(lanes_out, to, count);
    else
      for (std::size_t i = 0; i < count; ++i) to[i] = convert_element<S>(lanes_out[i]);
  }

 private:
  // The vector types that load and store convert directly.
  template <class S>
  static constexpr bool is_vectorised =
      std::is_same_v<S, T> ||
      (std::is_floating_point_v<T> && (std::is_floating_point_v<S> || cpu_kit::detail::is_half<S>));
};

/// Lanes of T in a pack.
template <class T>
inline constexpr std::size_t lanes = pack<T>::size;

/// A lane-wise condition: all bits of a lane set, or none.
template <class T, std::size_t Bytes = register_bytes>
struct pack_mask : functor_condition {
  typename pack<T, Bytes>::mask_native m;
  GRADUS_INLINE pack_mask(typename pack<T, Bytes>::mask_native x) : m(x) {}
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

/// a b + c, rounded the same way in every loop: once, where processor and compiler have such an instruction. g++
/// contracts a * b + c in one copy of a loop and not in another one, if the target's tuning avoids chains of
/// multiply-adds (`-mtune=znver3`).
template <class T>
GRADUS_INLINE pack<T> multiply_add(pack<T> a, pack<T> b, pack<T> c) {
#if defined(__FMA__) && !defined(__clang__)  // builtins, because <immintrin.h> takes a third of a second to parse
  constexpr bool is_float = std::is_same_v<T, float>;
#if defined(__AVX512F__)
  constexpr int nearest = 4;  // _MM_FROUND_CUR_DIRECTION
  if constexpr (is_float) return pack<T>(__builtin_ia32_vfmaddps512_mask(a.v, b.v, c.v, -1, nearest));
  else return pack<T>(__builtin_ia32_vfmaddpd512_mask(a.v, b.v, c.v, -1, nearest));
#elif defined(__AVX2__)
  if constexpr (is_float) return pack<T>(__builtin_ia32_vfmaddps256(a.v, b.v, c.v));
  else return pack<T>(__builtin_ia32_vfmaddpd256(a.v, b.v, c.v));
#else
  if constexpr (is_float) return pack<T>(__builtin_ia32_vfmaddps(a.v, b.v, c.v));
  else return pack<T>(__builtin_ia32_vfmaddpd(a.v, b.v, c.v));
#endif
#else
  return pack<T>(a.v * b.v + c.v);  // one expression, which compilers contract to a multiply-add
#endif
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

/// Lanes of `a` where the mask is true, of `b` elsewhere.
template <class T>
GRADUS_INLINE pack<T> select(pack_mask<T> m, pack<T> a, pack<T> b) {
  return pack<T>(m.m ? a.v : b.v);
}

/// Lane k of the result is lane i[k] of x; i[k] counts modulo the number of lanes.
template <class T>
GRADUS_INLINE pack<T> lanes_at(pack<T> x, typename pack<T>::mask_native i) {
#if defined(__clang__)
  pack<T> r;
  for (std::size_t k = 0; k < pack<T>::size; ++k) r.v[k] = x.v[static_cast<std::size_t>(i[k]) % pack<T>::size];
  return r;
#else
  return pack<T>(__builtin_shuffle(x.v, i));
#endif
}

/// True if the mask is true in every lane.
template <class T>
GRADUS_INLINE bool all(pack_mask<T> m) {
  std::uint64_t words[sizeof(m.m) / 8], joint = ~std::uint64_t{0};
  std::memcpy(words, &m.m, sizeof words);
  for (const std::uint64_t w : words) joint &= w;
  return joint == ~std::uint64_t{0};
}

/// Sum and maximum of the lanes, in a fixed order.
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

}  // namespace gradus::inline GRADUS_BUILD
