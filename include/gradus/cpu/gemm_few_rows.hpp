#pragma once
// The product of a few rows, such as that of one token, which takes as long as the other operand takes to be read once:
// nothing of it is packed.

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
template <class T, index_t Most, index_t Bytes, class Factor>
class gemm_few_rows : gemm_lanes<T, Bytes, Factor> {
  using lanes = gemm_lanes<T, Bytes, Factor>;
  using lanes::depth, lanes::each, lanes::width, lanes::load, lanes::store;
  using typename lanes::vector, typename lanes::word, typename lanes::words;

 public:
  /// Whether multiply() computes this product.
  static constexpr bool takes(bool transpose_a, bool transpose_b, index_t m, index_t n, index_t k, bool accumulate) {
    return m <= Most && !transpose_a && !accumulate && k > 0 && n % width == 0 &&
           k % (transpose_b ? width * each : each) == 0;
  }
  /// Bytes of its scratch.
  static constexpr std::size_t bytes() { return (Most * depth + 2 * Most * stride_of_sums + most_columns) * sizeof(T); }
  /// C = op(A) op(B), plus the bias in every row if there is one, with the bits of packed_gemm. `n` columns are
  /// multiplied, of a product that has `deep` = deep_of().
  template <class SA, class SB, class SC, class SBias>
  static void multiply(index_t deep, gemm_operand<SA> a, gemm_operand<SB> b, index_t m, index_t n, index_t k,
                       const SBias* bias, SC* c, index_t ldc, void* scratch) {
    constexpr bool in_place = std::is_same_v<SC, T>;
    word* const left = static_cast<word*>(scratch);
    T* const sums = static_cast<T*>(scratch) + Most * depth;
    T* const own_totals = sums + Most * stride_of_sums;
    T* const own_bias = own_totals + Most * stride_of_sums;
    for (index_t j = 0; j < n; j += most_columns) {
      const index_t across = std::min(most_columns, n - j);
      const T* const shift = bias == nullptr ? nullptr : lanes::bias_in_t(bias + j, across, own_bias);
      T* totals = own_totals;
      index_t stride = stride_of_sums;
      if constexpr (in_place) totals = c + j, stride = ldc;
      for (index_t p = 0; p < k; p += deep) {
        const index_t inner = std::min(deep, k - p);
        for (index_t r = 0; r < m; ++r)
          for (index_t s = 0; s * each < inner; ++s)
            left[(s / 4 * m + r) * 4 + s % 4] = lanes::one(a.at(r, p + s * each), 1, inner - s * each);
        for (index_t r = 0; r < m; ++r) std::fill_n(sums + r * stride_of_sums, across, T(0));
        if (b.transposed) add_columns(b.at(p, j), b.stride, inner, across, left, m, sums);
        else add_rows(b.at(p, j), b.stride, inner, across, left, m, sums);
        for (index_t r = 0; r < m; ++r)
          for (index_t s = 0; s < across; s += width) {
            T* const to = totals + r * stride + s;
            lanes::finish(true, load(sums + r * stride_of_sums + s),
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
  static constexpr index_t most_columns = 32 * width;  // whose sums stay in the first-level cache
  static constexpr index_t stride_of_sums =
      most_columns + width;  // no power of two, or all rows would share a place there

  // sums [m, across] += left B, for `inner` rows of B where they stand. `left` has four steps of the first row, then of
  // the next.
  template <class S>
  static void add_rows(const S* b, index_t stride, index_t inner, index_t across, const word* left, index_t m,
                       T* sums) {
    constexpr index_t wide = Bytes == 64 ? 4 : 2;  // 4 by 4 of 32 registers, or 4 by 2 of 16
    const index_t steps = inner / each, in_fours = steps / 4 * 4, in_wide = across / (wide * width) * wide * width;
    for (index_t s = 0; s < in_fours; s += 4) {  // so many streams the processor foresees
      const S* const from = b + s * each * stride;
      add_steps<4, wide>(from, stride, in_wide, left + s * m, m, sums);
      add_steps<4, 1>(from + in_wide, stride, across - in_wide, left + s * m, m, sums + in_wide);
    }
    for (index_t s = in_fours; s < steps; ++s)
      add_steps<1, 1>(b + s * each * stride, stride, across, left + in_fours * m + s % 4, m, sums);
  }
  template <index_t Steps, index_t Wide, class S>
  static void add_steps(const S* b, index_t stride, index_t across, const word* left, index_t m, T* sums) {
    constexpr auto lying_across = std::make_index_sequence<Wide>{};
    for (index_t j = 0; j < across; j += Wide * width) {
      words x[Steps][Wide];
      for (index_t i = 0; i < Steps * each; ++i)
        for (index_t w = 0; w < Wide; ++w) __builtin_prefetch(b + (2 * Steps * each + i) * stride + j + w * width);
      for (index_t i = 0; i < Steps; ++i)
        for (index_t w = 0; w < Wide; ++w) x[i][w] = lanes::load_across(b + i * each * stride + j + w * width, stride);
      const word* factors = left;
      for (T *to = sums + j, *const end = to + m * stride_of_sums; to != end; to += stride_of_sums, factors += 4) {
        vector sum[Wide];
        for (index_t w = 0; w < Wide; ++w) sum[w] = load(to + w * width);
        for (index_t i = 0; i < Steps; ++i) lanes::multiply_row(sum, factors[i], x[i], lying_across);
        for (index_t w = 0; w < Wide; ++w) store(sum[w], to + w * width);
      }
    }
  }
  // The same where the columns of B are its rows in memory.
  template <class S>
  static void add_columns(const S* b, index_t stride, index_t inner, index_t across, const word* left, index_t m,
                          T* sums) {
    for (index_t j = 0; j < across; j += width, b += width * stride) {
      for (index_t p = 0; p < inner; p += width * each) {
        words x[width];
        load_transposed(b + p, stride, x, std::make_index_sequence<width>{});
        const index_t step = p / each;  // of four that lie together
        const word* factors = left + step / 4 * 4 * m + step % 4;
        T *to = sums + j, *const end = to + m * stride_of_sums;
        for (; to + 4 * stride_of_sums <= end; to += 4 * stride_of_sums, factors += 4 * 4)
          add_square<4>(x, factors, 4 * m, to, std::make_index_sequence<width>{});
        for (; to != end; to += stride_of_sums, factors += 4)
          add_square<1>(x, factors, 4 * m, to, std::make_index_sequence<width>{});
      }
    }
  }
  template <index_t Rows, std::size_t... I>
  static GRADUS_INLINE void add_square(const words (&x)[sizeof...(I)], const word* left, index_t stride, T* sums,
                                       std::index_sequence<I...>) {
    vector sum[Rows];
    for (index_t r = 0; r < Rows; ++r) sum[r] = load(sums + r * stride_of_sums);
    const auto add = [&](const words& column, const word* factors) {
      for (index_t r = 0; r < Rows; ++r)
        lanes::multiply_row(sum + r, factors[4 * r], &column, std::index_sequence<0>{});
    };
    (add(x[I], left + I / 4 * stride + I % 4), ...);
    for (index_t r = 0; r < Rows; ++r) store(sum[r], sums + r * stride_of_sums);
  }
  template <class S, std::size_t... I>
  static GRADUS_INLINE void load_transposed(const S* from, index_t stride, words (&x)[sizeof...(I)],
                                            std::index_sequence<I...> all) {
    (__builtin_prefetch(from + (width + I) * stride, 0, 2), ...);
    ((x[I] = lanes::load_along(from + I * stride)), ...);
    transpose_registers(x, all);
  }
};

}  // namespace gradus::cpu_kit::inline GRADUS_BUILD
