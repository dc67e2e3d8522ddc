#pragma once
// Converts runs of elements between types, a vector at a time.

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "../core/config.hpp"
#include "../core/dtype.hpp"
#include "../core/extent.hpp"

namespace gradus::cpu_kit::inline GRADUS_BUILD {

/// Whether the target processor rounds to bf16 and has dot products of bf16 pairs (AVX-512 BF16).
#if defined(__AVX512BF16__)
inline constexpr bool has_bf16_instructions = true;
#else
inline constexpr bool has_bf16_instructions = false;
#endif

/// N elements of T as a compiler vector.
template <class T, index_t N>
struct vector_of {
  using type __attribute__((vector_size(N * sizeof(T)))) = T;
};

namespace detail {

// nvcc cannot cast a vector to one of another element type.
template <class To, class From>
GRADUS_INLINE To vector_bits(const From& from) {
  To to;
  std::memcpy(&to, &from, sizeof(To));
  return to;
}

// Elements per conversion instruction between float and f16; 0 without F16C.
#if defined(__AVX512F__)
inline constexpr index_t f16_lanes = 16;
#elif defined(__F16C__)
inline constexpr index_t f16_lanes = 8;
#else
inline constexpr index_t f16_lanes = 0;
#endif
template <class Halves, class Floats>
GRADUS_INLINE void instruction_from_f16([[maybe_unused]] Halves from, [[maybe_unused]] Floats& to) {
#if defined(__F16C__) || defined(__AVX512F__)
  __asm__("vcvtph2ps %1, %0" : "=v"(to) : "v"(from));
#endif
}
template <class Floats, class Halves>
GRADUS_INLINE void instruction_to_f16([[maybe_unused]] Floats from, [[maybe_unused]] Halves& to) {
#if defined(__F16C__) || defined(__AVX512F__)
  __asm__("vcvtps2ph $0, %1, %0" : "=v"(to) : "v"(from));  // 0: to nearest even
#endif
}

// The bits of a float from the bits of an f16: adds 112 to the exponent, normalises subnormals, makes NaN quiet.
template <class Words>
GRADUS_INLINE void widen_f16(Words h, Words& bits) {
  using floats __attribute__((vector_size(sizeof(Words)))) = float;
  const Words sign = (h & 0x8000u) << 16;
  const Words magnitude = (h & 0x7FFFu) << 13;
  const Words raised = magnitude + (113u << 23);
  const Words least = Words{} + (113u << 23);
  floats a, b;  // not by vector_bits<floats>: nvcc loses the attribute of a template argument
  std::memcpy(&a, &raised, sizeof a);
  std::memcpy(&b, &least, sizeof b);
  const floats subnormal = a - b;
  const Words normal = magnitude + (112u << 23);
  Words r = (magnitude < (1u << 23)) ? vector_bits<Words>(subnormal) : normal;
  r = (magnitude >= (31u << 23)) ? (magnitude | 0x7F800000u) : r;
  r = (magnitude > (31u << 23)) ? (r | 0x400000u) : r;
  bits = r | sign;
}

// The inverse, rounding to nearest even, like the constructor of f16.
template <class Words>
GRADUS_INLINE void narrow_f16(Words u, Words& bits) {
  using floats __attribute__((vector_size(sizeof(Words)))) = float;
  const Words sign = (u >> 16) & 0x8000u;
  const Words magnitude = u & 0x7FFFFFFFu;
  const Words rebased = magnitude - (112u << 23);
  const Words normal = (rebased + 0xFFFu + ((rebased >> 13) & 1u)) >> 13;
  floats shifted;  // as above
  std::memcpy(&shifted, &magnitude, sizeof shifted);
  shifted = shifted + 0.5f;  // rounds at a subnormal's last bit
  const Words subnormal = vector_bits<Words>(shifted) - 0x3F000000u;
  const Words nan = ((magnitude >> 13) & 0x3FFu) | 0x7E00u;
  Words r = (magnitude < (113u << 23)) ? subnormal : normal;
  r = (magnitude >= 0x477FF000u) ? Words{} + 0x7C00u : r;
  r = (magnitude > 0x7F800000u) ? nan : r;
  bits = r | sign;
}

// Rounds like the constructor of bf16.
template <class Words>
GRADUS_INLINE void narrow_bf16(Words u, Words& bits) {
  const Words nan = (u >> 16) | 0x40u;
  const Words rounded = (u + 0x7FFFu + ((u >> 16) & 1u)) >> 16;
  bits = ((u & 0x7FFFFFFFu) > 0x7F800000u) ? nan : rounded;
}

template <class T>
inline constexpr bool is_half = std::is_same_v<T, bf16> || std::is_same_v<T, f16>;

}  // namespace detail

/// Converts N elements from S to T.
template <class T, index_t N, class S>
GRADUS_INLINE void load_as(const S* from, typename vector_of<T, N>::type& to) {
  if constexpr (std::is_same_v<S, T>) {
    std::memcpy(&to, from, sizeof to);
  } else if constexpr (detail::is_half<S>) {
    typename vector_of<std::uint16_t, N>::type halves;
    std::memcpy(&halves, static_cast<const void*>(from), sizeof halves);
    using words = typename vector_of<std::uint32_t, N>::type;
    using floats = typename vector_of<float, N>::type;
    floats x;
    if constexpr (std::is_same_v<S, f16> && N == detail::f16_lanes) {
      detail::instruction_from_f16(halves, x);
    } else {
      const auto wide = __builtin_convertvector(halves, words);
      words bits;
      if constexpr (std::is_same_v<S, bf16>) bits = wide << 16;
      else detail::widen_f16<words>(wide, bits);
      x = detail::vector_bits<floats>(bits);
    }
    to = __builtin_convertvector(x, typename vector_of<T, N>::type);
  } else if constexpr (sizeof(S) == 1 && std::is_integral_v<S>) {  // in one step: compilers vectorise two steps badly
    using shorts = typename vector_of<std::conditional_t<std::is_signed_v<S>, std::int16_t, std::uint16_t>, N>::type;
    typename vector_of<std::conditional_t<std::is_signed_v<S>, std::int8_t, std::uint8_t>, N>::type x;
    std::memcpy(&x, from, sizeof x);
    to = __builtin_convertvector(__builtin_convertvector(x, shorts), typename vector_of<T, N>::type);
  } else {
    typename vector_of<S, N>::type x;
    std::memcpy(&x, from, sizeof x);
    to = __builtin_convertvector(x, typename vector_of<T, N>::type);
  }
}

namespace detail {

// Whether a masked instruction reads and writes the first of N elements of T without touching the memory behind them.
#if defined(__AVX512VL__) && defined(__AVX512BW__) && !GRADUS_ADDRESS_SANITIZER
template <class T, index_t N>
inline constexpr bool has_masks = sizeof(T) >= 2 && sizeof(T) * N >= 16 && sizeof(T) * N <= 64;
#elif defined(__AVX2__) && !GRADUS_ADDRESS_SANITIZER
template <class T, index_t N>
inline constexpr bool has_masks = sizeof(T) >= 4 && sizeof(T) * N == 32;
#else
template <class, index_t>
inline constexpr bool has_masks = false;
#endif

// Copies fewer than 2 K elements, without a loop.
template <index_t K, class T>
GRADUS_INLINE void copy_few(T* to, const T* from, index_t n) {
  if ((n & K) != 0) {
    std::memcpy(static_cast<void*>(to), from, K * sizeof(T));
    to += K;
    from += K;
  }
  if constexpr (K > 1) copy_few<K / 2>(to, from, n);
}

template <class T>
using word_of =
    std::conditional_t<sizeof(T) == 8, std::int64_t, std::conditional_t<sizeof(T) == 4, std::int32_t, std::int16_t>>;

// 0, 1, 2 ...
template <class Words>
GRADUS_INLINE Words lane_numbers() {
  Words at{};
  for (index_t i = 0; i < sizeof(Words) / sizeof(at[0]); ++i)
    at[i] = static_cast<std::remove_cvref_t<decltype(at[0])>>(i);
  return at;
}
// A mask of the lanes below n, as the instructions expect it.
template <class Words>
GRADUS_INLINE Words lanes_below(index_t n) {
  const Words at = lane_numbers<Words>();
  return at < static_cast<std::remove_cvref_t<decltype(at[0])>>(n);
}

}  // namespace detail

/// Loads the elements of the set bits of `which`, bit i for element i; the others are 0, and their memory is not read.
template <index_t N, class T>
GRADUS_INLINE void read_lanes(const T* from, std::uint32_t which, typename vector_of<detail::word_of<T>, N>::type& x) {
  if constexpr (detail::has_masks<T, N>) {
#if defined(__AVX512VL__) && defined(__AVX512BW__)
    if constexpr (sizeof(T) == 2)
      __asm__("vmovdqu16 (%1), %0%{%2%}%{z%}" : "=v"(x) : "r"(from), "Yk"(which) : "memory");
    else if constexpr (sizeof(T) == 4)
      __asm__("vmovups (%1), %0%{%2%}%{z%}" : "=v"(x) : "r"(from), "Yk"(which) : "memory");
    else __asm__("vmovupd (%1), %0%{%2%}%{z%}" : "=v"(x) : "r"(from), "Yk"(which) : "memory");
#elif defined(__AVX2__)
    using words = typename vector_of<detail::word_of<T>, N>::type;
    const words bit = (words{} + 1) << detail::lane_numbers<words>();
    const auto mask = (bit & static_cast<detail::word_of<T>>(which)) != 0;
    if constexpr (sizeof(T) == 4) __asm__("vmaskmovps (%1), %2, %0" : "=x"(x) : "r"(from), "x"(mask) : "memory");
    else __asm__("vmaskmovpd (%1), %2, %0" : "=x"(x) : "r"(from), "x"(mask) : "memory");
#endif
  } else {
    detail::word_of<T> words[N];
    std::memset(words, 0, sizeof words);
    for (index_t i = 0; i < N; ++i)
      if ((which >> i & 1u) != 0) std::memcpy(words + i, static_cast<const void*>(from + i), sizeof(T));
    std::memcpy(&x, words, sizeof x);
  }
}
/// Loads n elements, fewer than N; the rest of `to` is 0.
template <index_t N, class T>
GRADUS_INLINE void read_first(const T* from, index_t n, T (&to)[N]) {
  if constexpr (detail::has_masks<T, N>) {
    typename vector_of<detail::word_of<T>, N>::type x;
    read_lanes<N>(from, static_cast<std::uint32_t>((std::uint64_t{1} << n) - 1), x);
    std::memcpy(static_cast<void*>(to), &x, sizeof x);
  } else {
    std::memset(static_cast<void*>(to), 0, sizeof to);
    detail::copy_few<N / 2>(to, from, n);
  }
}
/// Stores the elements of the set bits of `which`.
template <index_t N, class T>
GRADUS_INLINE void write_lanes(const typename vector_of<detail::word_of<T>, N>::type& x, std::uint32_t which, T* to) {
#if defined(__AVX512VL__) && defined(__AVX512BW__)
  if constexpr (detail::has_masks<T, N>) {
    if constexpr (sizeof(T) == 2) __asm__("vmovdqu16 %0, (%1)%{%2%}" : : "v"(x), "r"(to), "Yk"(which) : "memory");
    else if constexpr (sizeof(T) == 4) __asm__("vmovups %0, (%1)%{%2%}" : : "v"(x), "r"(to), "Yk"(which) : "memory");
    else __asm__("vmovupd %0, (%1)%{%2%}" : : "v"(x), "r"(to), "Yk"(which) : "memory");
    return;
  }
#endif
  detail::word_of<T> words[N];
  std::memcpy(words, &x, sizeof words);
  for (index_t i = 0; i < N; ++i)
    if ((which >> i & 1u) != 0) std::memcpy(static_cast<void*>(to + i), words + i, sizeof(T));
}
/// Stores the first n of N elements.
template <index_t N, class T>
GRADUS_INLINE void write_first(const T (&from)[N], T* to, index_t n) {
  if constexpr (detail::has_masks<T, N>) {
    typename vector_of<detail::word_of<T>, N>::type x;
    std::memcpy(&x, static_cast<const void*>(from), sizeof x);
#if defined(__AVX512VL__) && defined(__AVX512BW__)
    const auto mask = static_cast<std::uint32_t>((std::uint64_t{1} << n) - 1);
    if constexpr (sizeof(T) == 2) __asm__("vmovdqu16 %0, (%1)%{%2%}" : : "v"(x), "r"(to), "Yk"(mask) : "memory");
    else if constexpr (sizeof(T) == 4) __asm__("vmovups %0, (%1)%{%2%}" : : "v"(x), "r"(to), "Yk"(mask) : "memory");
    else __asm__("vmovupd %0, (%1)%{%2%}" : : "v"(x), "r"(to), "Yk"(mask) : "memory");
#elif defined(__AVX2__)
    const auto mask = detail::lanes_below<decltype(x)>(n);
    if constexpr (sizeof(T) == 4) __asm__("vmaskmovps %0, %2, (%1)" : : "x"(x), "r"(to), "x"(mask) : "memory");
    else __asm__("vmaskmovpd %0, %2, (%1)" : : "x"(x), "r"(to), "x"(mask) : "memory");
#endif
  } else {
    detail::copy_few<N / 2>(to, from, n);
  }
}

/// Rounds 16 floats to bf16, to nearest even; subnormals become 0.
template <class Floats>
GRADUS_INLINE typename vector_of<std::uint16_t, 16>::type round_to_bf16([[maybe_unused]] Floats x) {
  static_assert(sizeof(Floats) == 64);
  typename vector_of<std::uint16_t, 16>::type rounded{};
#if defined(__AVX512BF16__)
  __asm__("vcvtneps2bf16 %1, %0" : "=v"(rounded) : "v"(x));
#endif
  return rounded;
}

/// Rounds N elements of T to S.
template <class T, index_t N, class S>
GRADUS_INLINE void store_as(const typename vector_of<T, N>::type& x, S* to) {
  if constexpr (std::is_same_v<S, T>) {
    std::memcpy(to, &x, sizeof x);
  } else if constexpr (has_bf16_instructions && std::is_same_v<S, bf16> && std::is_same_v<T, float> && N == 16) {
    const auto halves = round_to_bf16(x);
    std::memcpy(static_cast<void*>(to), &halves, sizeof halves);
  } else if constexpr (detail::is_half<S>) {
    using words = typename vector_of<std::uint32_t, N>::type;
    const auto floats = __builtin_convertvector(x, typename vector_of<float, N>::type);
    typename vector_of<std::uint16_t, N>::type halves;
    if constexpr (std::is_same_v<S, f16> && N == detail::f16_lanes) {
      detail::instruction_to_f16(floats, halves);
    } else {
      words bits;
      if constexpr (std::is_same_v<S, bf16>) detail::narrow_bf16<words>(reinterpret_cast<words>(floats), bits);
      else detail::narrow_f16<words>(reinterpret_cast<words>(floats), bits);
      halves = __builtin_convertvector(bits, typename vector_of<std::uint16_t, N>::type);
    }
    std::memcpy(static_cast<void*>(to), &halves, sizeof halves);
  } else {
    const auto y = __builtin_convertvector(x, typename vector_of<S, N>::type);
    std::memcpy(to, &y, sizeof y);
  }
}

}  // namespace gradus::cpu_kit::inline GRADUS_BUILD
