#pragma once
// The matrix product of one tile of the result, on packed copies of its operands (Goto and van de Geijn, "Anatomy of
// high-performance matrix multiplication", 2008; the small operand in the first-level cache is here a strip of A).

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "../core/config.hpp"
#include "../core/extent.hpp"

namespace gradus::cpu_kit {

/// A row-major matrix, `stride` elements from row to row as it is stored, which may be taken transposed.
template <class T>
struct gemm_operand {
  const T* data;
  index stride;
  bool transposed;

  const T* at(index row, index column) const {
    return transposed ? data + column * stride + row : data + row * stride + column;
  }
};

/// The piece of the result that is held in registers: its rows, and how many registers of how many bytes lie across.
struct gemm_registers {
  index rows, across, bytes;
};
#if defined(__AVX512F__)
inline constexpr gemm_registers native_gemm_registers{14, 2, 64};  // 28 of 32 registers
#elif defined(__AVX__)
inline constexpr gemm_registers native_gemm_registers{6, 2, 32};  // 12 of 16
#else
inline constexpr gemm_registers native_gemm_registers{6, 2, 16};
#endif

/// Products on one thread that take no memory but its stack: 0.8 MiB. The sum over k is taken in the same order whatever the
/// tile. The registers are part of the type, so that objects compiled for different processors cannot be mixed up.
template <class T, index Rows = native_gemm_registers.rows, index Across = native_gemm_registers.across,
          index Bytes = native_gemm_registers.bytes>
class packed_gemm {
  // Not a pack: g++ holds packs in registers only where a register has 64 bytes.
  using vector __attribute__((vector_size(Bytes))) = T;
  static constexpr index width = Bytes / sizeof(T);

 public:
  /// Columns that are computed together: tiles had better be a multiple wide.
  static constexpr index columns = Across * width;

  /// C = op(A) op(B) + beta C, or, with a bias, op(A) op(B) + bias in every row. With beta 0 or a bias C is only written.
  static void tile(gemm_operand<T> a, gemm_operand<T> b, index m, index n, index k, T beta, const T* bias, T* c,
                   index ldc) {
    (a.transposed ? blocks<true> : blocks<false>)(a, b, m, n, k, beta, bias, c, ldc);
  }

 private:
  static constexpr index depth = 2048 / sizeof(T);                    // of the sum over k, most between two visits to C
  static constexpr index block = 768 * 1024 / sizeof(T);              // of B, in the second-level cache
  static constexpr index strip = (Rows + width - 1) / width * width;  // rows of A, whole registers
  static constexpr index ahead = 24;                                  // rows from what is read to what is fetched

  // Rows in memory, `stride` elements apart; or none.
  struct rows_at {
    const T* data = nullptr;
    index stride = 0;
    rows_at at(index row, index column) const {
      return data == nullptr ? *this : rows_at{data + row * stride + column, stride};
    }
  };

  // A packed strip, where it is to be packed from if it is not yet, and what is to be fetched meanwhile.
  struct strip_of_a {
    rows_at from;
    T* packed;
    rows_at next;
  };
  // Packed panels, `rows` apart, and where the first `direct` columns are to be packed from if they are not yet.
  struct block_of_b {
    rows_at from;
    index direct;
    T* packed;
    index rows;
  };

  /// The length of equal parts of n, `most` at most and a multiple of `step`.
  static index part(index n, index most, index step) {
    const index parts = std::max<index>(1, (n + most - 1) / most);
    return std::max<index>(1, ((n + parts - 1) / parts + step - 1) / step) * step;
  }

  // A block of B stays in the second-level cache while strip after strip of A meets it. Both are packed on the way where that can
  // be: the first strip reads panels of B where they stand, and the first panel reads a transposed strip of A where it stands,
  // so that what they wait for memory is hidden behind multiplying.
  template <bool TransposeA>
  static void blocks(gemm_operand<T> a, gemm_operand<T> b, index m, index n, index k, T beta, const T* bias, T* c,
                     index ldc) {
    alignas(64) T left[strip * depth];
    alignas(64) T right[block];
    const index deep = part(k, n * depth <= block ? depth : depth / 2, width);  // of a wide B half, and more columns
    const index wide = part(n, block / deep / columns * columns, columns);
    for (index j = 0; j < n; j += wide) {
      const index across = std::min(wide, n - j);
      const index direct = b.transposed ? 0 : across / columns * columns;  // columns of B that the first strip packs
      const bool once = m <= Rows && direct == across;                     // nothing is read again
      index p = 0;
      do {  // once even if k is 0
        const index inner = std::min(deep, k - p);
        pack_right(b.at(p, j + direct), b.stride, b.transposed, inner, across - direct, right + direct * inner);
        const rows_at add = p > 0 || (bias == nullptr && beta != T(0)) ? rows_at{c, ldc} : rows_at{bias, 0};
        for (index i = 0; i < m; i += Rows) {
          const index rows = std::min(Rows, m - i);
          strip_of_a x{{}, left, {}};
          if (TransposeA && i + strip <= m && across >= columns) x.from = {a.at(i, p), a.stride};
          else pack_left<TransposeA>(a.at(i, p), a.stride, inner, rows, left);
          if (!TransposeA && i + 2 * Rows <= m) x.next = {a.at(i + Rows, p), a.stride};
          block_of_b y{{}, 0, right, once ? 0 : inner};
          if (i == 0) y.from = {b.at(p, j), b.stride}, y.direct = direct;
          of_rows(rows, [&]<index R>() {
            multiply_strip<TransposeA, R>(rows, across, inner, x, y, add.at(i, j), c + i * ldc + j, ldc);
          });
        }
        p += deep;
      } while (p < k);
    }
  }

  // Calls f with the height of a strip that holds `rows`.
  template <class F>
  static void of_rows(index rows, const F& f) {
    // NOLINTNEXTLINE(bugprone-branch-clone): the heights are the same where strips are low
    if (rows > 8) f.template operator()<Rows>();
    else if (rows > 4) f.template operator()<std::min<index>(Rows, 8)>();
    else f.template operator()<std::min<index>(Rows, 4)>();
  }

  // ---- packing -----------------------------------------------------------------------------------------------------------
  // Of what is not packed while it is multiplied. A strip of A is [k, strip] if A is taken transposed and [strip, depth]
  // otherwise, so that it is copied by runs either way. Rows that A does not have are zero.

  template <bool TransposeA>
  static void pack_left(const T* a, index stride, index inner, index rows, T* to) {
    if constexpr (TransposeA) {
      for (index p = 0; p < inner; ++p, a += stride, to += strip)
        for (index r = 0; r < Rows; ++r) to[r] = r < rows ? a[r] : T(0);
    } else {
      for (index r = 0; r < Rows; ++r, a += stride, to += depth) {
        if (r >= rows) {
          std::fill_n(to, inner, T(0));
          continue;
        }
        index p = 0;
        for (; p + width <= inner; p += width) store(load(a + p), to + p);
        for (; p < inner; ++p) to[p] = a[p];
      }
    }
  }

  // B is in panels [k, columns], the last one filled up with zeros.
  static void pack_right(const T* b, index stride, bool transposed, index inner, index across, T* to) {
    for (index j = 0; j < across; j += columns, to += inner * columns) {
      const index there = std::min(columns, across - j);
      if (transposed)
        for (index s = 0; s < columns; s += width)
          pack_columns(b + (j + s) * stride, stride, inner, std::min(width, there - std::min(there, s)), to + s);
      else
        for (index p = 0; p < inner; ++p)
          for (index s = 0; s < columns; ++s) to[p * columns + s] = s < there ? b[p * stride + j + s] : T(0);
    }
  }
  static void pack_columns(const T* b, index stride, index inner, index count, T* to) {
    index p = 0;
    if (count == width)
      for (; p + width <= inner; p += width)
        transpose_square(b + p, stride, to + p * columns, std::make_index_sequence<width>{});
    for (; p < inner; ++p)
      for (index s = 0; s < width; ++s) to[p * columns + s] = s < count ? b[s * stride + p] : T(0);
  }

  // Riffling the upper half of the rows into the lower one, log2(width) times, transposes a square.
  template <std::size_t... I>
  static GRADUS_INLINE void transpose_square(const T* from, index stride, T* to, std::index_sequence<I...> all) {
    vector x[width] = {load(from + I * stride)...};
    for (index step = 1; step < width; step *= 2) {
      const vector y[width] = {riffle<I % 2 * width / 2>(x[I / 2], x[I / 2 + width / 2], all)...};
      ((x[I] = y[I]), ...);
    }
    (store(x[I], to + I * columns), ...);
  }
  template <std::size_t First, std::size_t... I>
  static GRADUS_INLINE vector riffle(vector a, vector b, std::index_sequence<I...>) {
    return vector{(I % 2 == 0 ? a[First + I / 2] : b[First + I / 2])...};
  }

  // ---- multiplying -------------------------------------------------------------------------------------------------------

  /// R rows of the result, of which C has `rows`: C = A B, plus what `add` points to.
  template <bool TransposeA, index R>
  static void multiply_strip(index rows, index across, index inner, const strip_of_a& a, const block_of_b& b,
                             rows_at add, T* c, index ldc) {
    const auto panel = [&]<bool PackA, bool PackB>(index j, auto... to) {
      multiply<TransposeA, PackA, PackB>(std::make_index_sequence<R>{}, std::make_index_sequence<Across>{},
                                         std::make_index_sequence<R * Across>{}, inner, a.from, a.packed,
                                         b.from.at(0, j), b.packed + j * b.rows, to...);
    };
    for (index j = 0; j < across; j += columns) {
      const rows_at more = add.at(0, j);
      fetch(a.next, inner, j / columns, (across + columns - 1) / columns);
      if (across - j < columns) {
        alignas(64) T edge[R * columns];
        panel.template operator()<false, false>(j, R, rows_at{}, edge, columns);
        for (index r = 0; r < rows; ++r)
          for (index s = 0; s < across - j; ++s)
            c[r * ldc + j + s] = edge[r * columns + s] + (more.data != nullptr ? *more.at(r, s).data : T(0));
      } else {
        if constexpr (TransposeA && R == Rows) {
          if (j == 0 && a.from.data != nullptr) {
            if (j < b.direct) panel.template operator()<true, true>(j, rows, more, c + j, ldc);
            else panel.template operator()<true, false>(j, rows, more, c + j, ldc);
            continue;
          }
        }
        if (j < b.direct) panel.template operator()<false, true>(j, rows, more, c + j, ldc);
        else panel.template operator()<false, false>(j, rows, more, c + j, ldc);
      }
    }
  }
  // One of several parts of a strip that is packed next: fetched a part at a time, it does not hold up what is multiplied.
  static void fetch(rows_at strip_of_rows, index inner, index number, index parts) {
    if (strip_of_rows.data == nullptr) return;
    const index wide = (inner + width - 1) / width, lines = wide * Rows;
    for (index l = lines * number / parts; l < lines * (number + 1) / parts; ++l)
      __builtin_prefetch(strip_of_rows.at(l / wide, l % wide * width).data);
  }
  // Folds instead of loops: every index is a constant, so that all of it is held in registers. Inlined it would not be.
  template <bool TransposeA, bool PackA, bool PackB, std::size_t... R, std::size_t... P, std::size_t... I>
  [[gnu::noinline]] static void multiply(std::index_sequence<R...>, std::index_sequence<P...> across,
                                         std::index_sequence<I...>, index inner, rows_at a, T* left, rows_at b,
                                         T* right, index rows, rows_at add, T* c, index ldc) {
    constexpr index row = TransposeA ? 1 : depth, step = TransposeA ? strip : 1;
    (__builtin_prefetch(c + I / Across * ldc + I % Across * width, 1), ...);
    vector sum[sizeof...(I)];
    ((sum[I] = vector{}), ...);
    for (index p = 0; p < inner; ++p, left += step, right += columns) {
      const vector x[Across] = {load((PackB ? b.data : right) + P * width)...};
      if constexpr (PackB) {
        (__builtin_prefetch(b.data + ahead * b.stride + P * width), ...);
        (store(x[P], right + P * width), ...);
        b.data += b.stride;
      }
      (multiply_row(sum + R * Across, (PackA ? a.data : left)[R * row], x, across), ...);
      if constexpr (PackA) {
        __builtin_prefetch(a.data + ahead * a.stride + strip - 1);
        for (index s = 0; s < strip; s += width) store(load(a.data + s), left + s);
        a.data += a.stride;
      }
    }
    (finish(I / Across < rows, sum[I], add.at(I / Across, I % Across * width).data,
            c + I / Across * ldc + I % Across * width),
     ...);
  }
  template <std::size_t... P>
  static GRADUS_INLINE void multiply_row(vector* sum, T a, const vector* b, std::index_sequence<P...>) {
    ((sum[P] += a * b[P]), ...);  // one expression, so that compilers contract it to a multiply-add
  }
  static GRADUS_INLINE void finish(bool wanted, vector sum, const T* add, T* to) {
    if (!wanted) return;
    store(add != nullptr ? load(add) + sum : sum, to);
  }

  static GRADUS_INLINE vector load(const T* from) {
    vector x;
    std::memcpy(&x, from, sizeof(x));
    return x;
  }
  static GRADUS_INLINE void store(vector x, T* to) { std::memcpy(to, &x, sizeof(x)); }
};

}  // namespace gradus::cpu_kit
