#pragma once
// The matrix product of attention's blocks: small, unpacked, on scratch in the cache.

#include <cstddef>
#include <cstring>
#include <type_traits>
#include <utility>

#include "../core/config.hpp"
#include "../core/extent.hpp"
#include "pairs.hpp"
#include "simd.hpp"

namespace gradus::cpu_kit::inline GRADUS_BUILD {

/// c (+)= a b for row-major b [inner, LdB] and c [rows, LdC], `packs` packs wide. Element (m, k) of a is a[m * am + k *
/// ak]: a may be transposed. `rows` is even. Operands are elements of C, or words of bf16 pairs, which `inner` counts.
///
/// A register tile has four rows by four packs: sixteen independent multiply-adds for eight loads hide the latency.
template <class C, index_t LdB, index_t LdC, class Word = C>
struct block_product {
  static void run(index_t rows, index_t packs, index_t inner, const Word* a, index_t am, index_t ak, const Word* b,
                  C* c, bool add) {
    for (; packs >= 4; packs -= 4, b += 4 * lanes<C>, c += 4 * lanes<C>) stripe<4>(rows, inner, a, am, ak, b, c, add);
    if (packs == 3) stripe<3>(rows, inner, a, am, ak, b, c, add);
    if (packs == 2) stripe<2>(rows, inner, a, am, ak, b, c, add);
    if (packs == 1) stripe<1>(rows, inner, a, am, ak, b, c, add);
  }

 private:
  template <index_t N>
  static void stripe(index_t rows, index_t inner, const Word* a, index_t am, index_t ak, const Word* b, C* c,
                     bool add) {
    index_t m = 0;
    if constexpr (N <= 2)  // narrow: more rows, for as many independent multiply-adds
      for (; m + 8 <= rows; m += 8) tile<8, N>(inner, a + m * am, am, ak, b, c + m * LdC, add);
    for (; m + 4 <= rows; m += 4) tile<4, N>(inner, a + m * am, am, ak, b, c + m * LdC, add);
    for (; m < rows; m += 2) tile<2, N>(inner, a + m * am, am, ak, b, c + m * LdC, add);
  }

  template <index_t M, index_t N>
  static GRADUS_INLINE void tile(index_t inner, const Word* a, index_t am, index_t ak, const Word* b, C* c, bool add) {
    tile_of<N>(std::make_index_sequence<M>{}, std::make_index_sequence<N>{}, std::make_index_sequence<M * N>{}, inner,
               a, am, ak, b, c, add);
  }
  // Folds instead of loops: every index is a constant, so the sums stay in registers.
  template <index_t N, std::size_t... M, std::size_t... Pack, std::size_t... I>
  static GRADUS_INLINE void tile_of(std::index_sequence<M...>, std::index_sequence<Pack...>, std::index_sequence<I...>,
                                    index_t inner, const Word* a, index_t am, index_t ak, const Word* b, C* c,
                                    bool add) {
    pack<C> sum[sizeof...(I)];
    if (add) ((sum[I] = pack<C>::load(c + I / N * LdC + I % N * lanes<C>)), ...);
    else ((sum[I] = pack<C>(0)), ...);
    for (index_t k = 0; k < inner; ++k, a += ak, b += LdB) {
      if constexpr (std::is_same_v<Word, C>) {
        const pack<C> right[N] = {pack<C>::load(b + Pack * lanes<C>)...};
        const pack<C> left[sizeof...(M)] = {pack<C>(a[M * am])...};
        ((sum[I].v += left[I / N].v * right[I % N].v),
         ...);  // one expression, which compilers contract to a multiply-add
      } else {
        using words = typename vector_of<Word, lanes<C>>::type;
        words right[N];
        (std::memcpy(&right[Pack], b + Pack * lanes<C>, sizeof(words)), ...);
        const words left[sizeof...(M)] = {words{} + a[M * am]...};
        (add_pair_products(sum[I].v, left[I / N], right[I % N]), ...);
      }
    }
    (sum[I].store(c + I / N * LdC + I % N * lanes<C>), ...);
  }
};

}  // namespace gradus::cpu_kit::inline GRADUS_BUILD
