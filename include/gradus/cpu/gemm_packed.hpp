#pragma once
// The matrix product of one tile of the result, on packed copies of its operands (Goto and van de Geijn, "Anatomy of
// high-performance matrix multiplication", 2008; the small operand in the first-level cache is here a strip of A).

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
#include "gemm_few_rows.hpp"
#include "gemm_lanes.hpp"
#include "transpose.hpp"

namespace gradus::cpu_kit::inline GRADUS_BUILD {

/// Products on one thread, summed in T; see gemm_lanes for Factor. The registers are part of the type, so that objects
/// compiled for different processors cannot be mixed up.
template <class T, index_t Rows = native_gemm_registers.rows, index_t Across = native_gemm_registers.across,
          index_t Bytes = native_gemm_registers.bytes, class Factor = T>
class packed_gemm : gemm_lanes<T, Bytes, Factor> {
  using lanes = gemm_lanes<T, Bytes, Factor>;
  using lanes::block, lanes::depth, lanes::each, lanes::pairs, lanes::width, lanes::load, lanes::store;
  using typename lanes::vector, typename lanes::word, typename lanes::words;
  // What is packed while it is multiplied, where it is stored so; of B, float as well, which becomes pairs on the way.
  using direct_type = std::conditional_t<pairs, bf16, T>;
  template <class SB>
  using direct_type_of_b = std::conditional_t<pairs && std::is_same_v<SB, float>, float, direct_type>;
  template <class SB>
  static constexpr bool packs_b_directly =
      std::is_same_v<SB, direct_type_of_b<SB>> && (pairs || std::is_same_v<Factor, T>);

 public:
  using lanes::deep_of;
  /// What multiplies a few rows.
  using few_rows = gemm_few_rows<T, 24, Bytes, Factor>;

  /// What is computed together: tiles had better be a multiple high and wide.
  static constexpr index_t rows_together = Rows, columns = Across * width;

  /// How the tiles of one product go about it, and what scratch they have, in elements.
  struct tiling {
    index_t deep;                    ///< of the sum over k, as much as is taken between two visits to C
    index_t wide;                    ///< columns of a block of B
    index_t height;                  ///< rows that meet it, before the next
    index_t right, bias, sums, all;  ///< where the block of B, a bias in T and sums of C begin; and the end
    std::size_t bytes() const { return all * sizeof(T); }
  };
  /// Of an m x n product over k, in tiles of `tallest` by `widest` at most. The order in which an element is summed
  /// follows from `deep`, hence from n and k alone.
  template <class SC, class SBias>
  static constexpr tiling tiling_for(index_t n, index_t k, index_t tallest, index_t widest) {
    tiling p{};
    p.deep = deep_of(n, k);
    p.wide = lanes::part(widest, block / (p.deep / each) / columns * columns, columns);
    p.height = std::is_same_v<SC, T> || k <= p.deep ? tallest : std::min(tallest, chunk);
    p.right = strip * depth;
    p.bias = p.right + p.deep / each * p.wide;
    p.sums = p.bias + (std::is_same_v<SBias, T> ? 0 : p.wide);
    p.all = p.sums + (std::is_same_v<SC, T> ? 0 : p.wide * (k <= p.deep ? Rows : p.height));
    return p;
  }

  /// C = op(A) op(B) + C (with `accumulate`), or, with a bias, op(A) op(B) + bias in every row. Otherwise C is only
  /// written.
  template <class SA, class SB, class SC, class SBias>
  static void tile(const tiling& how, gemm_operand<SA> a, gemm_operand<SB> b, index_t m, index_t n, index_t k,
                   bool accumulate, const SBias* bias, SC* c, index_t ldc, void* memory) {
    (a.transposed ? blocks<true, SA, SB, SC, SBias> : blocks<false, SA, SB, SC, SBias>)(how, a, b, m, n, k, accumulate,
                                                                                        bias, c, ldc, memory);
  }

 private:
  static constexpr index_t strip = (Rows + width - 1) / width * width;  // rows of A, whole registers
  static constexpr index_t low = Rows / 2 + 1;                          // rows of a low strip
  static constexpr index_t ahead = 24;                                  // rows from what is read to what is fetched
  static constexpr index_t chunk = 36 * Rows;                           // rows of partial sums, where C is not in T

  // Rows in memory, `stride` elements apart; or none.
  template <class S>
  struct rows_of {
    const S* data = nullptr;
    index_t stride = 0;
    rows_of at(index_t row, index_t column) const {
      return data == nullptr ? *this : rows_of{data + row * stride + column, stride};
    }
  };
  using rows_at = rows_of<T>;

  // A packed strip, where it is to be packed from if it is not yet, and the strip to be fetched meanwhile.
  struct strip_of_a {
    rows_of<direct_type> from;
    word* packed;
    rows_of<direct_type> next;
  };
  // Cache lines of a strip: those of row after row; or, where it is taken transposed, one in each row.
  template <bool TransposeA>
  struct lines_of_strip {
    rows_of<direct_type> strip;
    index_t steps;
    index_t next = 0, end = count();

    index_t in_row() const { return (steps + width - 1) / width; }
    index_t count() const { return strip.data == nullptr ? 0 : TransposeA ? steps * each : in_row() * Rows; }
    // The `part`th of `parts`.
    lines_of_strip part(index_t part, index_t parts) const {
      return {strip, steps, count() * part / parts, count() * (part + 1) / parts};
    }
    GRADUS_INLINE void fetch(index_t lines) {
      for (const index_t stop = std::min(end, next + lines); next < stop; ++next)
        __builtin_prefetch(
            (TransposeA ? strip.at(next, Rows - 1) : strip.at(next / in_row(), next % in_row() * width * each)).data);
    }
  };
  // Packed panels, `rows` apart, and where the first `direct` columns are to be packed from if they are not yet.
  template <class S>
  struct block_of_b {
    rows_of<S> from;
    index_t direct;
    word* packed;
    index_t rows;
  };

  // A block of B stays in the second-level cache while strip after strip of A meets it. Both are packed on the way
  // where that can be: the first strip reads panels of B where they stand, and the first panel reads a transposed strip
  // of A where it stands, so that what they wait for memory is hidden behind multiplying.
  template <bool TransposeA, class SA, class SB, class SC, class SBias>
  static void blocks(const tiling& how, gemm_operand<SA> a, gemm_operand<SB> b, index_t m, index_t n, index_t k,
                     bool accumulate, const SBias* bias, SC* c, index_t ldc, void* scratch) {
    constexpr bool in_place = std::is_same_v<SC, T>;  // sums are kept in C itself
    const index_t deep = how.deep;
    const bool whole = k % each == 0;  // no last factor stands alone
    T* const memory = static_cast<T*>(scratch);
    word* const left = static_cast<word*>(scratch);
    word* const right = left + how.right;
    for (index_t j = 0; j < n; j += how.wide) {
      const index_t across = std::min(how.wide, n - j);
      const index_t direct =
          packs_b_directly<SB> && !b.transposed && whole ? across / columns * columns : 0;  // that a strip packs
      const rows_at shift{bias == nullptr ? nullptr : lanes::bias_in_t(bias + j, across, memory + how.bias), 0};
      for (index_t top = 0; top < m; top += how.height) {
        const index_t bottom = std::min(m, top + how.height);
        const bool once = top + height_of_strip(bottom - top) == bottom && direct == across;  // nothing is read again
        index_t p = 0;
        do {  // once even if k is 0
          const index_t inner = std::min(deep, k - p);
          const index_t steps = (inner + each - 1) / each;
          pack_right(b.at(p, j + direct), b.stride, b.transposed, inner, across - direct, right + direct * steps);
          for (index_t i = top, there; i < bottom; i += there) {
            there = height_of_strip(bottom - i);
            strip_of_a x{{}, left, {}};
            const bool meets = TransposeA && i + strip <= m && across >= columns && whole;
            if constexpr (std::is_same_v<SA, direct_type>) {
              if (meets) x.from = {a.at(i, p), a.stride};
              if (i + there + Rows <= m) x.next = {a.at(i + there, p), a.stride};
            }
            if (x.from.data == nullptr) pack_left<TransposeA>(a.at(i, p), a.stride, inner, m - i, left);
            block_of_b<direct_type_of_b<SB>> y{{}, 0, right, once ? 0 : steps};
            if constexpr (packs_b_directly<SB>)
              if (i == top) y.from = {b.at(p, j), b.stride}, y.direct = direct;
            T* to = nullptr;
            index_t stride = ldc;
            if constexpr (in_place) to = c + i * ldc + j;
            else to = memory + how.sums + (k <= deep ? 0 : i - top) * how.wide, stride = how.wide;
            const bool again = p > 0 || (in_place && bias == nullptr && accumulate);
            const auto multiply = there > low ? &multiply_strip<TransposeA, Rows, direct_type_of_b<SB>>
                                              : &multiply_strip<TransposeA, low, direct_type_of_b<SB>>;
            multiply(there, across, steps, x, y, again ? rows_at{to, stride} : shift, to, stride);
            if constexpr (!in_place)
              if (p + deep >= k)
                lanes::round_rows(to, stride, there, across, bias == nullptr && accumulate, c + i * ldc + j, ldc);
          }
          p += deep;
        } while (p < k);
      }
    }
  }

  // Rows of the next strip, where `rows` are left: low ones end a product, so that few rows are computed that C does
  // not have.
  static constexpr index_t height_of_strip(index_t rows) {
    return std::min(rows, rows <= low || (rows > Rows && rows <= 2 * low) ? low : Rows);
  }

  // ---- packing ------------------------------------------------------------------------------------------------------
  // Of what is not packed while it is multiplied. A strip of A is [k, strip] if A is taken transposed and [strip,
  // depth] otherwise, so that it is copied by runs either way. Rows that A does not have are zero.

  template <bool TransposeA, class S>
  static void pack_left(const S* a, index_t stride, index_t inner, index_t rows, word* to) {
    if constexpr (TransposeA) {
      for (index_t p = 0; p < inner; p += each, a += each * stride, to += strip) {
        if (rows >= strip && p + each <= inner)
          for (index_t r = 0; r < strip; r += width) store(lanes::load_across(a + r, stride), to + r);
        else
          for (index_t r = 0; r < Rows; ++r) to[r] = r < rows ? lanes::one(a + r, stride, inner - p) : word{};
      }
    } else {
      for (index_t r = 0; r < Rows; ++r, a += stride, to += depth) {
        if (r >= rows) {
          std::fill_n(to, (inner + each - 1) / each, word{});
          continue;
        }
        index_t s = 0;
        for (; (s + width) * each <= inner; s += width) store(lanes::load_along(a + s * each), to + s);
        for (; s * each < inner; ++s) to[s] = lanes::one(a + s * each, 1, inner - s * each);
      }
    }
  }

  // B is in panels [k, columns], the last one filled up with zeros.
  template <class S>
  static void pack_right(const S* b, index_t stride, bool transposed, index_t inner, index_t across, word* to) {
    const index_t steps = (inner + each - 1) / each;
    for (index_t j = 0; j < across; j += columns, to += steps * columns) {
      const index_t there = std::min(columns, across - j);
      if (transposed)
        for (index_t s = 0; s < columns; s += width)
          pack_columns(b + (j + s) * stride, stride, inner, std::min(width, there - std::min(there, s)), to + s);
      else
        for (index_t s = 0; s < steps; ++s)
          pack_row(b + s * each * stride + j, stride, inner - s * each, there, to + s * columns);
    }
  }
  template <class S>
  static void pack_row(const S* b, index_t stride, index_t left, index_t count, word* to) {
    if (count == columns && left >= each)
      for (index_t s = 0; s < columns; s += width) store(lanes::load_across(b + s, stride), to + s);
    else
      for (index_t s = 0; s < columns; ++s) to[s] = s < count ? lanes::one(b + s, stride, left) : word{};
  }
  template <class S>
  static void pack_columns(const S* b, index_t stride, index_t inner, index_t count, word* to) {
    index_t p = 0;
    if (count == width)
      for (; (p + width) * each <= inner; p += width)
        transpose_square(b + p * each, stride, to + p * columns, std::make_index_sequence<width>{});
    for (; p * each < inner; ++p)
      for (index_t s = 0; s < width; ++s)
        to[p * columns + s] = s < count ? lanes::one(b + s * stride + p * each, 1, inner - p * each) : word{};
  }

  template <class S, std::size_t... I>
  static GRADUS_INLINE void transpose_square(const S* from, index_t stride, word* to, std::index_sequence<I...> all) {
    words x[width] = {lanes::load_along(from + I * stride)...};
    transpose_registers(x, all);
    (store(x[I], to + I * columns), ...);
  }

  // ---- multiplying --------------------------------------------------------------------------------------------------

  /// R rows of the result, of which C has `rows`: C = A B, plus what `add` points to.
  template <bool TransposeA, index_t R, class S>
  static void multiply_strip(index_t rows, index_t across, index_t steps, const strip_of_a& a, const block_of_b<S>& b,
                             rows_at add, T* c, index_t ldc) {
    const lines_of_strip<TransposeA> next{a.next, steps};
    const index_t panels = (across + columns - 1) / columns;
    const auto panel = [&](rows_of<direct_type> from_a, rows_of<S> from_b, index_t j, auto... to) {
      multiply<TransposeA, S>(std::make_index_sequence<R>{}, std::make_index_sequence<Across>{},
                              std::make_index_sequence<R * Across>{}, steps, from_a, a.packed, from_b,
                              b.packed + j * b.rows, next.part(j / columns, panels), to...);
    };
    for (index_t j = 0; j < across; j += columns) {
      const rows_at more = add.at(0, j);
      if (across - j < columns) {
        alignas(64) T edge[R * columns];
        panel({}, {}, j, R, rows_at{}, edge, columns);
        for (index_t r = 0; r < rows; ++r)
          for (index_t s = 0; s < across - j; ++s)
            c[r * ldc + j + s] = edge[r * columns + s] + (more.data != nullptr ? *more.at(r, s).data : T(0));
      } else {
        panel(j == 0 ? a.from : rows_of<direct_type>{}, j < b.direct ? b.from.at(0, j) : rows_of<S>{}, j, rows, more,
              c + j, ldc);
      }
    }
  }
  // Folds instead of loops: every index is a constant, so that all of it is held in registers. Inlined it would not be.
  // What is packed on the way costs two branches a step, which are always foreseen; a kernel for each case costs
  // compile time. What is needed later, C and the next strip, is fetched a few lines at a time: a core waits for few of
  // them at once, and many would hold up those that the arithmetic reads.
  template <bool TransposeA, class S, std::size_t... R, std::size_t... P, std::size_t... I>
  [[gnu::noinline]] static void multiply(std::index_sequence<R...>, std::index_sequence<P...> across,
                                         std::index_sequence<I...>, index_t steps, rows_of<direct_type> a, word* left,
                                         rows_of<S> b, word* right, lines_of_strip<TransposeA> next, index_t rows,
                                         rows_at add, T* c, index_t ldc) {
    constexpr index_t row = TransposeA ? 1 : depth, step = TransposeA ? strip : 1;
    constexpr index_t parts = sizeof...(R);  // of the sum, one for each row of C
    const index_t part = (steps + parts - 1) / parts, lines = (next.end - next.next + parts - 1) / parts;
    const T* row_of_c = c;
    vector sum[sizeof...(I)];
    ((sum[I] = vector{}), ...);
    for (index_t p = 0; p < steps; row_of_c += ldc) {
      (__builtin_prefetch(row_of_c + P * width, 1), ...);
      next.fetch(lines);
      for (const index_t end = std::min(steps, p + part); p < end; ++p, left += step, right += columns) {
        words x[Across];
        if (b.data != nullptr) {
          ((x[P] = lanes::load_across(b.data + P * width, b.stride)), ...);
          for (index_t e = 0; e < each; ++e) (__builtin_prefetch(b.data + (ahead + e) * b.stride + P * width), ...);
          (store(x[P], right + P * width), ...);
          b.data += each * b.stride;
        } else {
          (std::memcpy(&x[P], right + P * width, Bytes), ...);
        }
        if constexpr (TransposeA) {
          if (a.data != nullptr) {
            for (index_t e = 0; e < each; ++e) __builtin_prefetch(a.data + (ahead + e) * a.stride + strip - 1);
            for (index_t s = 0; s < strip; s += width) store(lanes::load_across(a.data + s, a.stride), left + s);
            a.data += each * a.stride;
          }
        }
        (lanes::multiply_row(sum + R * Across, left[R * row], x, across), ...);
      }
    }
    (lanes::finish(I / Across < rows, sum[I], add.at(I / Across, I % Across * width).data,
                   c + I / Across * ldc + I % Across * width),
     ...);
  }
};

/// The kernel of products that are summed in T, of operands stored as SA and SB: where A is in 16 bits, a B of float is
/// rounded to A's type.
template <class T, class SA, class SB>
using gemm_kernel =
    packed_gemm<T, native_gemm_registers.rows, native_gemm_registers.across, native_gemm_registers.bytes,
                std::conditional_t<detail::is_half<SA> && std::is_same_v<T, float> &&
                                       (std::is_same_v<SB, SA> || std::is_same_v<SB, float>),
                                   SA, T>>;

}  // namespace gradus::cpu_kit::inline GRADUS_BUILD
