#pragma once
// The matrix product of attention's blocks: small, unpacked, on scratch in the cache.

#include <cstddef>
#include <cstring>
#include <type_traits>
#include <utility>

#include "../core/config.hpp"
#include "../core/extent.hpp"
#include "gemm_lanes.hpp"
#include "simd.hpp"

namespace gradus::cpu_kit::inline GRADUS_BUILD {

/// c (+)= a b for row-major b [inner, LdB] and c [rows, LdC], `packs` packs wide. Element (m, k) of a is a[m * am + k *
/// ak]: a may be transposed. `rows` is even. Operands are elements of C, or words of bf16 pairs, which `inner` counts.
///
/// A register tile has four rows by four packs, or six by two where there are sixteen registers: so many independent
/// multiply-adds hide the latency.
template <class C, index_t LdB, index_t LdC, class Word = C>
struct block_product {
  static void run(index_t rows, index_t packs, index_t inner, const Word* a, index_t am, index_t ak, const Word* b,
                  C* c, bool add) {
    for (; packs >= widest; packs -= widest, b += widest * lanes<C>, c += widest * lanes<C>)
      stripe<widest>(rows, inner, a, am, ak, b, c, add);
    if constexpr (widest > 2) {
      if (packs == 3) stripe<3>(rows, inner, a, am, ak, b, c, add);
      if (packs == 2) stripe<2>(rows, inner, a, am, ak, b, c, add);
    }
    if (packs == 1) stripe<1>(rows, inner, a, am, ak, b, c, add);
  }

 private:
  using registers = gemm_lanes<C, register_bytes, std::conditional_t<std::is_same_v<Word, C>, C, bf16>>;
  using vector = typename registers::vector;
  using words = typename registers::words;
  static constexpr bool many_registers = native_gemm_registers.rows * native_gemm_registers.across > 16;
  static constexpr index_t widest = many_registers ? 4 : 2;

  template <index_t N>
  static void stripe(index_t rows, index_t inner, const Word* a, index_t am, index_t ak, const Word* b, C* c,
                     bool add) {
    index_t m = 0;
    if constexpr (N <= 2) {  // narrow: more rows, for as many independent multiply-adds
      constexpr index_t tall = many_registers || N == 1 ? 8 : 6;
      for (; m + tall <= rows; m += tall) tile<tall, N>(inner, a + m * am, am, ak, b, c + m * LdC, add);
    }
    for (; m + 4 <= rows; m += 4) tile<4, N>(inner, a + m * am, am, ak, b, c + m * LdC, add);
    for (; m < rows; m += 2) tile<2, N>(inner, a + m * am, am, ak, b, c + m * LdC, add);
  }

  template <index_t M, index_t N>
  static GRADUS_INLINE void tile(index_t inner, const Word* a, index_t am, index_t ak, const Word* b, C* c, bool add) {
    tile_of<N>(std::make_index_sequence<M>{}, std::make_index_sequence<N>{}, std::make_index_sequence<M * N>{}, inner,
               a, am, ak, b, c, add);
  }
  // Folds instead of loops: every index is a constant, so the sums stay in registers.
  template <index_t N, std::size_t... M, std::size_t... Pack, std::size_t... Is>
  static GRADUS_INLINE void tile_of(std::index_sequence<M...>, std::index_sequence<Pack...> packs,
                                    std::index_sequence<Is...>, index_t inner, const Word* a, index_t am, index_t ak,
                                    const Word* b, C* c, bool add) {
    vector sum[sizeof...(Is)];
    if (add) ((sum[Is] = pack<C>::load(c + Is / N * LdC + Is % N * lanes<C>).v), ...);
    else ((sum[Is] = vector{}), ...);
    for (index_t k = 0; k < inner; ++k, a += ak, b += LdB) {
      words right[N];
      (std::memcpy(&right[Pack], b + Pack * lanes<C>, sizeof(words)), ...);
      (registers::multiply_row(sum + M * N, a[M * am], right, packs), ...);
    }
    (pack<C>(sum[Is]).store(c + Is / N * LdC + Is % N * lanes<C>), ...);
  }
};

}  // namespace gradus::cpu_kit::inline GRADUS_BUILD
