#pragma once
// The product of a matrix of few rows, such as one token's, with B: bound by reading B once, so nothing of B is packed.

#include <algorithm>
#include <cstddef>
#include <type_traits>
#include <utility>

#include "../core/config.hpp"
#include "../core/extent.hpp"
#include "gemm_lanes.hpp"
#include "transpose.hpp"

namespace gradus::cpu_kit::inline GRADUS_BUILD {

/// For kernels that multiply few rows as they do many.
struct no_few_rows {
  static constexpr bool supports(auto...) { return false; }
  static constexpr std::size_t bytes() { return 0; }
  static void multiply(auto...) {}
};

/// Products of up to MaxRows rows. See gemm_lanes for the other parameters.
template <class T, index_t MaxRows, index_t Bytes, class Factor>
class gemm_few_rows : gemm_lanes<T, Bytes, Factor> {
  using lanes = gemm_lanes<T, Bytes, Factor>;
  using lanes::depth, lanes::per_word, lanes::width, lanes::load, lanes::store;
  using typename lanes::vector, typename lanes::word, typename lanes::words;

 public:
  /// Whether multiply() supports this product.
  static constexpr bool supports(bool transpose_a, bool transpose_b, index_t m, index_t n, index_t k, bool accumulate) {
    return m <= MaxRows && !transpose_a && !accumulate && k > 0 && n % width == 0 &&
           k % (transpose_b ? width * per_word : per_word) == 0;
  }
  /// Bytes of scratch.
  static constexpr std::size_t bytes() {
    return (MaxRows * depth + 2 * MaxRows * sums_stride + max_columns) * sizeof(T);
  }
  /// C = op(A) op(B), plus the bias in every row if it is not null, with the bits of packed_gemm. Computes `n` columns
  /// of a product whose kc is kc_of() of all its columns.
  template <class SA, class SB, class SC, class SBias>
  static void multiply(index_t kc, gemm_operand<SA> a, gemm_operand<SB> b, index_t m, index_t n, index_t k,
                       const SBias* bias, SC* c, index_t ldc, void* scratch) {
    constexpr bool in_place = std::is_same_v<SC, T>;
    word* const left = static_cast<word*>(scratch);
    T* const sums = static_cast<T*>(scratch) + MaxRows * depth;
    T* const own_totals = sums + MaxRows * sums_stride;
    T* const own_bias = own_totals + MaxRows * sums_stride;
    for (index_t j = 0; j < n; j += max_columns) {
      const index_t across = std::min(max_columns, n - j);
      const T* const shift = bias == nullptr ? nullptr : lanes::bias_in_t(bias + j, across, own_bias);
      T* totals = own_totals;
      index_t stride = sums_stride;
      if constexpr (in_place) totals = c + j, stride = ldc;
      for (index_t p = 0; p < k; p += kc) {
        const index_t inner = std::min(kc, k - p);
        for (index_t r = 0; r < m; ++r)
          for (index_t s = 0; s * per_word < inner; ++s)
            left[(s / 4 * m + r) * 4 + s % 4] = lanes::load_one(a.at(r, p + s * per_word), 1, inner - s * per_word);
        for (index_t r = 0; r < m; ++r) std::fill_n(sums + r * sums_stride, across, T(0));
        if (b.transposed) add_columns(b.at(p, j), b.stride, inner, across, left, m, sums);
        else add_rows(b.at(p, j), b.stride, inner, across, left, m, sums);
        for (index_t r = 0; r < m; ++r)
          for (index_t s = 0; s < across; s += width) {
            T* const to = totals + r * stride + s;
            lanes::store_sum(true, load(sums + r * sums_stride + s),
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
  static constexpr index_t max_columns = 32 * width;  // their sums stay in the L1 cache
  static constexpr index_t sums_stride =
      max_columns + width;  // not a power of two: rows would map to the same cache set

  // sums [m, across] += left B for `inner` rows of B in place. `left` holds four steps of each row in turn.
  template <class S>
  static void add_rows(const S* b, index_t stride, index_t inner, index_t across, const word* left, index_t m,
                       T* sums) {
    constexpr index_t wide = Bytes == 64 ? 4 : 2;  // 4 x 4 of 32 registers, or 4 x 2 of 16
    const index_t steps = inner / per_word, in_fours = steps / 4 * 4, in_wide = across / (wide * width) * wide * width;
    for (index_t s = 0; s < in_fours; s += 4) {  // the hardware prefetcher follows four streams
      const S* const from = b + s * per_word * stride;
      add_steps<4, wide>(from, stride, in_wide, left + s * m, m, sums);
      add_steps<4, 1>(from + in_wide, stride, across - in_wide, left + s * m, m, sums + in_wide);
    }
    for (index_t s = in_fours; s < steps; ++s)
      add_steps<1, 1>(b + s * per_word * stride, stride, across, left + in_fours * m + s % 4, m, sums);
  }
  template <index_t Steps, index_t Wide, class S>
  static void add_steps(const S* b, index_t stride, index_t across, const word* left, index_t m, T* sums) {
    constexpr auto lying_across = std::make_index_sequence<Wide>{};
    for (index_t j = 0; j < across; j += Wide * width) {
      words x[Steps][Wide];
      for (index_t i = 0; i < Steps * per_word; ++i)
        for (index_t w = 0; w < Wide; ++w) __builtin_prefetch(b + (2 * Steps * per_word + i) * stride + j + w * width);
      for (index_t i = 0; i < Steps; ++i)
        for (index_t w = 0; w < Wide; ++w)
          x[i][w] = lanes::load_across(b + i * per_word * stride + j + w * width, stride);
      const word* factors = left;
      for (T *to = sums + j, *const end = to + m * sums_stride; to != end; to += sums_stride, factors += 4) {
        vector sum[Wide];
        for (index_t w = 0; w < Wide; ++w) sum[w] = load(to + w * width);
        for (index_t i = 0; i < Steps; ++i) lanes::multiply_row(sum, factors[i], x[i], lying_across);
        for (index_t w = 0; w < Wide; ++w) store(sum[w], to + w * width);
      }
    }
  }
  // sums [m, across] += left B for a transposed B, whose columns are contiguous.
  template <class S>
  static void add_columns(const S* b, index_t stride, index_t inner, index_t across, const word* left, index_t m,
                          T* sums) {
    for (index_t j = 0; j < across; j += width, b += width * stride) {
      for (index_t p = 0; p < inner; p += width * per_word) {
        words x[width];
        load_transposed(b + p, stride, x, std::make_index_sequence<width>{});
        const index_t step = p / per_word;  // steps are interleaved by four
        const word* factors = left + step / 4 * 4 * m + step % 4;
        T *to = sums + j, *const end = to + m * sums_stride;
        for (; to + 4 * sums_stride <= end; to += 4 * sums_stride, factors += 4 * 4)
          add_register_tile<4>(x, factors, 4 * m, to, std::make_index_sequence<width>{});
        for (; to != end; to += sums_stride, factors += 4)
          add_register_tile<1>(x, factors, 4 * m, to, std::make_index_sequence<width>{});
      }
    }
  }
  template <index_t Rows, std::size_t... Is>
  static GRADUS_INLINE void add_register_tile(const words (&x)[sizeof...(Is)], const word* left, index_t stride,
                                              T* sums, std::index_sequence<Is...>) {
    vector sum[Rows];
    for (index_t r = 0; r < Rows; ++r) sum[r] = load(sums + r * sums_stride);
    const auto add = [&](const words& column, const word* factors) {
      for (index_t r = 0; r < Rows; ++r)
        lanes::multiply_row(sum + r, factors[4 * r], &column, std::index_sequence<0>{});
    };
    (add(x[Is], left + Is / 4 * stride + Is % 4), ...);
    for (index_t r = 0; r < Rows; ++r) store(sum[r], sums + r * sums_stride);
  }
  template <class S, std::size_t... Is>
  static GRADUS_INLINE void load_transposed(const S* from, index_t stride, words (&x)[sizeof...(Is)],
                                            std::index_sequence<Is...> all) {
    (__builtin_prefetch(from + (width + Is) * stride, 0, 2), ...);
    ((x[Is] = lanes::load_along(from + Is * stride)), ...);
    transpose_registers(x, all);
  }
};

}  // namespace gradus::cpu_kit::inline GRADUS_BUILD
