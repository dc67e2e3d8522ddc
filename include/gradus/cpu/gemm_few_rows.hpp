#pragma once
// The product of a few rows, such as that of one token, which takes as long as the other operand takes to be read once: nothing of
// it is packed.

#include <algorithm>
#include <cstddef>
#include <type_traits>
#include <utility>

#include "../core/config.hpp"
#include "../core/extent.hpp"
#include "gemm_lanes.hpp"
#include "transpose.hpp"

namespace gradus::cpu_kit::inline GRADUS_BUILD {

/// Products of up to `Most` rows. See gemm_lanes for the other parameters.
template <class T, index Most, index Bytes, class Factor>
class gemm_few_rows : gemm_lanes<T, Bytes, Factor> {
  using lanes = gemm_lanes<T, Bytes, Factor>;
  using lanes::depth, lanes::each, lanes::width, lanes::load, lanes::store;
  using typename lanes::vector, typename lanes::word, typename lanes::words;

 public:
  /// Whether multiply() computes this product.
  static constexpr bool takes(bool transpose_a, bool transpose_b, index m, index n, index k, bool accumulate) {
    return m <= Most && !transpose_a && !accumulate && k > 0 && n % width == 0 &&
           k % (transpose_b ? width * each : each) == 0;
  }
  /// Bytes of its scratch.
  static constexpr std::size_t bytes() { return (Most * depth + (2 * Most + 1) * most_columns) * sizeof(T); }
  /// C = op(A) op(B), plus the bias in every row if there is one, with the bits of packed_gemm. `n` columns are multiplied, of a product
  /// that has `deep` = deep_of().
  template <class SA, class SB, class SC, class SBias>
  static void multiply(index deep, gemm_operand<SA> a, gemm_operand<SB> b, index m, index n, index k, const SBias* bias,
                       SC* c, index ldc, void* scratch) {
    constexpr bool in_place = std::is_same_v<SC, T>;
    word* const left = static_cast<word*>(scratch);
    T* const sums = static_cast<T*>(scratch) + Most * depth;
    T* const own_totals = sums + Most * most_columns;
    T* const own_bias = own_totals + Most * most_columns;
    for (index j = 0; j < n; j += most_columns) {
      const index across = std::min(most_columns, n - j);
      const T* const shift = bias == nullptr ? nullptr : lanes::bias_in_t(bias + j, across, own_bias);
      T* totals = own_totals;
      index stride = most_columns;
      if constexpr (in_place) totals = c + j, stride = ldc;
      for (index p = 0; p < k; p += deep) {
        const index inner = std::min(deep, k - p);
        for (index r = 0; r < m; ++r)
          for (index s = 0; s * each < inner; ++s)
            left[r * depth + s] = lanes::one(a.at(r, p + s * each), 1, inner - s * each);
        if (b.transposed) add_columns(b.at(p, j), b.stride, inner, across, left, m, sums);
        else add_rows(b.at(p, j), b.stride, inner, across, left, m, sums);
        for (index r = 0; r < m; ++r)
          for (index s = 0; s < across; s += width) {
            T* const to = totals + r * stride + s;
            lanes::finish(true, load(sums + r * most_columns + s),
                          p > 0              ? to
                          : shift == nullptr ? nullptr
                                             : shift + s,
                          to);
          }
      }
      if constexpr (!in_place) lanes::round_rows(totals, stride, m, across, false, c + j, ldc);
    }
  }

 private:
  static constexpr index most_columns = 64 * width;  // whose sums stay in the first-level cache

  // sums [m, most_columns] = left B, for `inner` rows of B where they stand: four at a time are streams that the processor foresees.
  template <class S>
  static void add_rows(const S* b, index stride, index inner, index across, const word* left, index m, T* sums) {
    for (index r = 0; r < m; ++r) std::fill_n(sums + r * most_columns, across, T(0));
    const auto add = [&](index first, auto count) {
      constexpr index rows = decltype(count)::value;
      const S* const from = b + first * each * stride;
      for (index j = 0; j < across; j += width) {
        words x[rows];
        for (index i = 0; i < rows * each; ++i) __builtin_prefetch(from + (2 * rows * each + i) * stride + j);
        for (index i = 0; i < rows; ++i) x[i] = lanes::load_across(from + i * each * stride + j, stride);
        for (index r = 0; r < m; ++r) {
          vector sum = load(sums + r * most_columns + j);
          for (index i = 0; i < rows; ++i)
            lanes::multiply_row(&sum, left[r * depth + first + i], &x[i], std::index_sequence<0>{});
          store(sum, sums + r * most_columns + j);
        }
      }
    };
    const index steps = inner / each;
    index s = 0;
    for (; s + 4 <= steps; s += 4) add(s, std::integral_constant<index, 4>{});
    for (; s < steps; ++s) add(s, std::integral_constant<index, 1>{});
  }
  // The same where the columns of B are its rows in memory.
  template <class S>
  static void add_columns(const S* b, index stride, index inner, index across, const word* left, index m, T* sums) {
    for (index j = 0; j < across; j += width) {
      vector sum[Most] = {};
      for (index p = 0; p < inner; p += width * each) {
        words x[width];
        load_transposed(b + j * stride + p, stride, x, std::make_index_sequence<width>{});
        for (index r = 0; r < m; ++r)
          for (index i = 0; i < width; ++i)
            lanes::multiply_row(&sum[r], left[r * depth + p / each + i], &x[i], std::index_sequence<0>{});
      }
      for (index r = 0; r < m; ++r) store(sum[r], sums + r * most_columns + j);
    }
  }
  template <class S, std::size_t... I>
  static GRADUS_INLINE void load_transposed(const S* from, index stride, words (&x)[sizeof...(I)],
                                            std::index_sequence<I...> all) {
    (__builtin_prefetch(from + (width + I) * stride, 0, 2), ...);
    ((x[I] = lanes::load_along(from + I * stride)), ...);
    transpose_registers(x, all);
  }
};

}  // namespace gradus::cpu_kit::inline GRADUS_BUILD
