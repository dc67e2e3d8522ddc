#pragma once
// Dot products of bf16 pairs: words of two elements adjacent along the summed dimension, the first in the lower half.

#include <cstdint>
#include <cstring>

#include "../core/config.hpp"
#include "../core/dtype.hpp"
#include "../core/extent.hpp"
#include "convert.hpp"

namespace gradus::cpu_kit::inline GRADUS_BUILD {

/// sum += a . b in every lane: 64-byte vectors of float and of words. Subnormals count as 0. Inline assembly, because
/// the intrinsic's header takes a third of a second to compile.
template <class Floats, class Words>
GRADUS_INLINE void add_pair_products([[maybe_unused]] Floats& sum, [[maybe_unused]] Words a, [[maybe_unused]] Words b) {
  static_assert(has_bf16_instructions && sizeof(Floats) == 64 && sizeof(Words) == 64);
#if defined(__AVX512BF16__)
  __asm__("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
#endif
}

/// One word.
GRADUS_INLINE std::uint32_t join_pair(bf16 first, bf16 second) {
  return first.bits | static_cast<std::uint32_t>(second.bits) << 16;
}
/// N words: element i of `first` in the lower half, of `second` in the upper half.
template <index_t N>
GRADUS_INLINE void join_pairs(const bf16* first, const bf16* second, typename vector_of<std::uint32_t, N>::type& to) {
  using words = typename vector_of<std::uint32_t, N>::type;
  typename vector_of<std::uint16_t, N>::type x, y;
  std::memcpy(&x, static_cast<const void*>(first), sizeof x);
  std::memcpy(&y, static_cast<const void*>(second), sizeof y);
  to = __builtin_convertvector(x, words) | (__builtin_convertvector(y, words) << 16);
}
/// join_pairs for floats, rounded to bf16, to nearest even; subnormals become 0.
template <index_t N>
GRADUS_INLINE void join_pairs(const float* first, const float* second, typename vector_of<std::uint32_t, N>::type& to) {
  static_assert(N == 16);
#if defined(__AVX512BF16__)
  typename vector_of<float, N>::type x, y;
  std::memcpy(&x, first, sizeof x);
  std::memcpy(&y, second, sizeof y);
  using words = typename vector_of<std::uint32_t, N>::type;
  const words order = words{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15} * 0x10001u + 0x100000u;
  words halves;  // of x, then of y
  __asm__("vcvtne2ps2bf16 %1, %2, %0" : "=v"(halves) : "v"(x), "v"(y));
  __asm__("vpermw %1, %2, %0" : "=v"(to) : "v"(halves), "v"(order));
#else
  for (index_t i = 0; i < N; ++i) to[i] = join_pair(bf16(first[i]), bf16(second[i]));
#endif
}
/// N adjacent words.
template <index_t N>
GRADUS_INLINE void load_pairs(const bf16* from, typename vector_of<std::uint32_t, N>::type& to) {
  std::memcpy(&to, static_cast<const void*>(from), sizeof to);
}
/// load_pairs for floats: N adjacent pairs, rounded as in join_pairs.
template <index_t N>
GRADUS_INLINE void load_pairs(const float* from, typename vector_of<std::uint32_t, N>::type& to) {
  static_assert(N == 16);
#if defined(__AVX512BF16__)
  typename vector_of<float, N>::type x, y;
  std::memcpy(&x, from, sizeof x);
  std::memcpy(&y, from + N, sizeof y);
  __asm__("vcvtne2ps2bf16 %1, %2, %0" : "=v"(to) : "v"(x), "v"(y));
#else
  for (index_t i = 0; i < N; ++i) to[i] = join_pair(bf16(from[2 * i]), bf16(from[2 * i + 1]));
#endif
}

}  // namespace gradus::cpu_kit::inline GRADUS_BUILD
