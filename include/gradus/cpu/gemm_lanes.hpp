#pragma once
// Registers of matrix products: loads factors as lanes or pairs, multiplies, and rounds the sums to the result's type.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "../core/config.hpp"
#include "../core/dtype.hpp"
#include "../core/extent.hpp"
#include "convert.hpp"
#include "pairs.hpp"

namespace gradus::cpu_kit::inline GRADUS_BUILD {

/// A row-major matrix with `stride` elements from row to row, which may be transposed.
template <class T>
struct gemm_operand {
  const T* data;
  index_t stride;
  bool transposed;

  const T* at(index_t row, index_t column) const {
    return transposed ? data + column * stride + row : data + row * stride + column;
  }
};

/// The register tile of the result: rows, and registers per row of `bytes` bytes each.
struct gemm_registers {
  index_t rows, across, bytes;
};
#if defined(__AVX512F__)
inline constexpr gemm_registers native_gemm_registers{14, 2, 64};  // 28 of 32 registers
#elif defined(__AVX__)
inline constexpr gemm_registers native_gemm_registers{6, 2, 32};  // 12 of 16
#elif defined(__aarch64__)
inline constexpr gemm_registers native_gemm_registers{8, 3, 16};  // 24 of 32
#else
inline constexpr gemm_registers native_gemm_registers{6, 2, 16};
#endif

/// Registers of products summed in T. Elements of a wider type than Factor are rounded to it first. Factors are T; or,
/// if Factor is bf16 and the processor has dot products of bf16 pairs, words of two factors that are adjacent along k.
/// With Tiles, words are pairs, and blocks fit the caches of processors that have a tile unit.
template <class T, index_t Bytes, class Factor, bool Tiles = false>
struct gemm_lanes {
  static_assert(std::is_same_v<Factor, T> || (detail::is_half<Factor> && std::is_same_v<T, float>));
  static constexpr bool pairs =
      (Tiles || has_bf16_instructions) && Bytes == 64 && std::is_same_v<Factor, bf16> && std::is_same_v<T, float>;
  static_assert(pairs || !Tiles);
  static constexpr index_t per_word = pairs ? 2 : 1;  // factors in a word
  using word = std::conditional_t<pairs, std::uint32_t, T>;
  // Not packs: g++ holds packs in registers only where a register has 64 bytes.
  using vector __attribute__((vector_size(Bytes))) = T;
  using words __attribute__((vector_size(Bytes))) = word;
  static constexpr index_t width = Bytes / sizeof(T);
  static constexpr index_t depth = (Tiles ? 1024 : 2048) / sizeof(T);          // the largest kc, in words
  static constexpr index_t block = (Tiles ? 1024 : 768) * (1024 / sizeof(T));  // words of a block of B: fits in L2

  /// kc: how many terms of the sum over k are added before C is updated. It determines the order of summation.
  static constexpr index_t kc_of(index_t n, index_t k) {
    const index_t most =
        Tiles || n * depth <= block ? depth : depth / 2;  // a wide B gets half the depth and more columns per block
    return part(k, most * per_word, width * per_word);
  }

  // The length of equal parts of n: at most `most`, and a multiple of `step`.
  static constexpr index_t part(index_t n, index_t most, index_t step) {
    const index_t parts = std::max<index_t>(1, (n + most - 1) / most);
    return std::max<index_t>(1, ((n + parts - 1) / parts + step - 1) / step) * step;
  }

  template <std::size_t... P>
  static GRADUS_INLINE void multiply_row(vector* sum, word a, const words* b, std::index_sequence<P...>) {
    if constexpr (pairs) {
      const words pair = words{} + a;
      (add_pair_products(sum[P], pair, b[P]), ...);
    } else {
      ((sum[P] += a * b[P]), ...);  // one expression, so that compilers contract it to a multiply-add
    }
  }
  static GRADUS_INLINE void store_sum(bool wanted, vector sum, const T* add, T* to) {
    if (!wanted) return;
    store(add != nullptr ? load(add) + sum : sum, to);
  }

  template <class S>
  static GRADUS_INLINE vector load(const S* from) {
    vector x;
    load_as<T, width>(from, x);
    return x;
  }
  static GRADUS_INLINE void store(vector x, T* to) { std::memcpy(to, &x, sizeof(x)); }
  static GRADUS_INLINE void store(words x, std::uint32_t* to) { std::memcpy(to, &x, sizeof(x)); }

  // A word has `per_word` factors, adjacent along k, `stride` elements apart. Loads words adjacent across k:
  template <class S>
  static GRADUS_INLINE words load_across(const S* from, index_t stride) {
    if constexpr (pairs) {
      words x;
      join_pairs<width>(from, from + stride, x);
      return x;
    } else {
      return rounded(load(from), from);
    }
  }
  // Loads words that are adjacent along k, whose two factors are adjacent in memory.
  template <class S>
  static GRADUS_INLINE words load_along(const S* from) {
    if constexpr (pairs) {
      words x;
      load_pairs<width>(from, x);
      return x;
    } else {
      return rounded(load(from), from);
    }
  }
  // Loads one word with up to `left` factors; a missing one is 0.
  template <class S>
  static word load_one(const S* from, index_t stride, index_t left) {
    if constexpr (pairs) return join_pair(bf16(*from), left < 2 ? bf16{} : bf16(from[stride]));
    else if constexpr (std::is_same_v<S, Factor>) return static_cast<T>(*from);
    else return static_cast<T>(Factor(*from));
  }
  // Rounds elements of type S to Factor.
  template <class S>
  static GRADUS_INLINE vector rounded(const vector& x, const S*) {
    if constexpr (std::is_same_v<Factor, T> || std::is_same_v<S, Factor>) {
      return x;
    } else {
      Factor halves[width];
      store_as<T, width>(x, halves);
      return load(halves);
    }
  }

  template <class SBias>
  static const T* bias_in_t(const SBias* bias, index_t count, T* to) {
    if constexpr (std::is_same_v<SBias, T>) {
      return bias;
    } else {
      for (index_t i = 0; i < count; ++i) to[i] = static_cast<T>(bias[i]);
      return to;
    }
  }
  // Stores complete sums to C: its elements are rounded here only.
  template <class SC>
  static void round_rows(const T* sums, index_t stride, index_t rows, index_t across, bool accumulate, SC* c,
                         index_t ldc) {
    for (index_t r = 0; r < rows; ++r, sums += stride, c += ldc) {
      index_t j = 0;
      for (; j + width <= across; j += width) {
        vector x = load(sums + j);
        if (accumulate) x += load(c + j);
        store_as<T, width>(x, c + j);
      }
      for (; j < across; ++j) {
        const T x = accumulate ? sums[j] + static_cast<T>(c[j]) : sums[j];
        if constexpr (detail::is_half<SC>) c[j] = SC(static_cast<float>(x));
        else c[j] = static_cast<SC>(x);
      }
    }
  }
};

}  // namespace gradus::cpu_kit::inline GRADUS_BUILD
