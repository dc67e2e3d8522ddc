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
    const bool few = m <= few_strips * Rows;
    if (a.transposed) (few ? panels<true> : blocks<true>)(a, b, m, n, k, beta, bias, c, ldc);
    else (few ? panels<false> : blocks<false>)(a, b, m, n, k, beta, bias, c, ldc);
  }

 private:
  static constexpr index depth = 1024 / sizeof(T);                    // of the sum over k, between two visits to C
  static constexpr index block = 768 * 1024 / sizeof(T);              // of B, in the second-level cache
  static constexpr index strip = (Rows + width - 1) / width * width;  // rows of A, whole registers
  static constexpr index few_strips = 10;                             // of A, with which B is not worth packing first

  // What a product is added to: C, a bias in every row, or nothing.
  struct addend {
    const T* data;
    index stride;
    const T* at(index row, index column) const { return data == nullptr ? data : data + row * stride + column; }
  };

  /// The length of equal parts of n, `most` at most and a multiple of `step`.
  static index part(index n, index most, index step) {
    const index parts = std::max<index>(1, (n + most - 1) / most);
    return std::max<index>(1, ((n + parts - 1) / parts + step - 1) / step) * step;
  }

  template <bool TransposeA>
  static void blocks(gemm_operand<T> a, gemm_operand<T> b, index m, index n, index k, T beta, const T* bias, T* c,
                     index ldc) {
    alignas(64) T left[strip * depth];
    alignas(64) T right[block];
    const index deep = part(k, depth, width);
    const index wide = part(n, block / deep / columns * columns, columns);
    for (index j = 0; j < n; j += wide) {
      index p = 0;
      do {  // once even if k is 0
        const index inner = std::min(deep, k - p);
        const index across = std::min(wide, n - j);
        pack_right(b.at(p, j), b.stride, b.transposed, inner, across, right);
        const addend add = p > 0 || (bias == nullptr && beta != T(0)) ? addend{c, ldc} : addend{bias, 0};
        for (index i = 0; i < m; i += Rows) {
          const index rows = std::min(Rows, m - i);
          pack_left<TransposeA>(a.at(i, p), a.stride, inner, rows, left);
          const fetch<TransposeA> next{i + Rows < m ? a.at(i + Rows, p) : nullptr, a.stride, inner};
          of_rows(rows, [&]<index R>() {
            multiply_strip<TransposeA, R>(rows, across, inner, left, right, add.at(i, j), add.stride, c + i * ldc + j,
                                          ldc, next);
          });
        }
        p += deep;
      } while (p < k);
    }
  }

  // The same for few rows, where packing B would take long against multiplying: all of A is packed instead, and meets one
  // panel of B after the other. Its first strip reads the panel where it stands and packs it on the way.
  template <bool TransposeA>
  static void panels(gemm_operand<T> a, gemm_operand<T> b, index m, index n, index k, T beta, const T* bias, T* c,
                     index ldc) {
    alignas(64) T left[few_strips * strip * depth];
    alignas(64) T right[depth * columns];
    const index deep = part(k, depth, width);
    index p = 0;
    do {  // once even if k is 0
      const index inner = std::min(deep, k - p);
      for (index i = 0; i < m; i += Rows)
        pack_left<TransposeA>(a.at(i, p), a.stride, inner, std::min(Rows, m - i),
                              left + i / Rows * strip * depth);
      const addend add = p > 0 || (bias == nullptr && beta != T(0)) ? addend{c, ldc} : addend{bias, 0};
      for (index j = 0; j < n; j += columns) {
        const index across = std::min(columns, n - j);
        const bool in_place = !b.transposed && across == columns;
        if (!in_place) pack_right(b.at(p, j), b.stride, b.transposed, inner, across, right);
        for (index i = 0; i < m; i += Rows) {
          const index rows = std::min(Rows, m - i);
          const T* const strip_of_a = left + i / Rows * strip * depth;
          T* const to = c + i * ldc + j;
          of_rows(rows, [&]<index R>() {
            if (i == 0 && in_place)
              multiply<TransposeA, R, true>(rows, inner, strip_of_a, b.at(p, j), b.stride, right, add.at(i, j),
                                            add.stride, to, ldc);
            else
              multiply_strip<TransposeA, R>(rows, across, inner, strip_of_a, right, add.at(i, j), add.stride, to, ldc,
                                            fetch<TransposeA>{});
          });
        }
      }
      p += deep;
    } while (p < k);
  }

  // Calls f with the height of a strip that holds `rows`.
  template <class F>
  static void of_rows(index rows, const F& f) {
    if (rows > 8) f.template operator()<Rows>();
    else if (rows > 4) f.template operator()<std::min<index>(Rows, 8)>();
    else f.template operator()<std::min<index>(Rows, 4)>();
  }

  // ---- packing -----------------------------------------------------------------------------------------------------------
  // A strip of A is [k, strip] if A is taken transposed and [strip, depth] otherwise, so that it is copied by runs either way.
  // Rows that A does not have are zero.

  template <bool TransposeA>
  static void pack_left(const T* a, index stride, index inner, index rows, T* to) {
    if constexpr (TransposeA) {
      for (index p = 0; p < inner; ++p, a += stride, to += strip) {
        if (rows == Rows) std::memcpy(to, a, Rows * sizeof(T));
        else
          for (index r = 0; r < Rows; ++r) to[r] = r < rows ? a[r] : T(0);
      }
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

  // A strip of A that is needed next, whose lines are brought near a few at a time, while others are multiplied.
  template <bool TransposeA>
  struct fetch {
    const T* a = nullptr;
    index stride = 0, inner = 0;
    void part(index number, index parts) const {
      if (a == nullptr) return;
      const index across = TransposeA ? 1 : (inner + width - 1) / width;
      const index lines = across * (TransposeA ? inner : Rows);
      for (index l = lines * number / parts; l < lines * (number + 1) / parts; ++l)
        __builtin_prefetch(TransposeA ? a + l * stride + Rows - 1 : a + l / across * stride + l % across * width, 0, 2);
    }
  };

  // The block of B is in panels [k, columns], the last one filled up with zeros.
  static void pack_right(const T* b, index stride, bool transposed, index inner, index across, T* to) {
    for (index j = 0; j < across; j += columns, to += inner * columns) {
      const index there = std::min(columns, across - j);
      if (!transposed) pack_rows(b + j, stride, inner, there, to);
      else
        for (index s = 0; s < columns; s += width)
          pack_columns(b + (j + s) * stride, stride, inner, std::min(width, there - std::min(there, s)), to + s);
    }
  }
  static void pack_rows(const T* b, index stride, index inner, index there, T* to) {
    for (index p = 0; p < inner; ++p, b += stride, to += columns) {
      if (there == columns)
        for (index s = 0; s < columns; s += width) {
          __builtin_prefetch(b + 8 * stride + s);
          store(load(b + s), to + s);
        }
      else
        for (index s = 0; s < columns; ++s) to[s] = s < there ? b[s] : T(0);
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
  static void multiply_strip(index rows, index across, index inner, const T* left, const T* right, const T* add,
                             index add_stride, T* c, index ldc, const fetch<TransposeA>& next) {
    for (index j = 0; j < across; j += columns, right += inner * columns) {
      next.part(j / columns, (across + columns - 1) / columns);
      const T* const more = add == nullptr ? add : add + j;
      if (across - j >= columns) {
        multiply<TransposeA, R, false>(rows, inner, left, right, columns, nullptr, more, add_stride, c + j, ldc);
      } else {
        alignas(64) T edge[R * columns];
        multiply<TransposeA, R, false>(R, inner, left, right, columns, nullptr, nullptr, 0, edge, columns);
        for (index r = 0; r < rows; ++r)
          for (index s = 0; s < across - j; ++s)
            c[r * ldc + j + s] = edge[r * columns + s] + (more != nullptr ? more[r * add_stride + s] : T(0));
      }
    }
  }
  // `right` is a packed panel or, to be packed into `panel` while it is read, one of rows that lie `stride` apart.
  template <bool TransposeA, index R, bool Pack>
  static void multiply(index rows, index inner, const T* left, const T* right, index stride, T* panel, const T* add,
                       index add_stride, T* c, index ldc) {
    multiply_of<TransposeA ? 1 : depth, TransposeA ? strip : 1, Pack>(
        std::make_index_sequence<R>{}, std::make_index_sequence<Across>{}, std::make_index_sequence<R * Across>{}, rows,
        inner, left, right, stride, panel, add, add_stride, c, ldc);
  }
  // Folds instead of loops: every index is a constant, so that all of it is held in registers.
  template <index Row, index Step, bool Pack, std::size_t... R, std::size_t... P, std::size_t... I>
  static GRADUS_INLINE void multiply_of(std::index_sequence<R...>, std::index_sequence<P...> across,
                                        std::index_sequence<I...>, index rows, index inner, const T* left,
                                        const T* right, index stride, T* panel, const T* add, index add_stride, T* c,
                                        index ldc) {
    (__builtin_prefetch(c + I / Across * ldc + I % Across * width, 1), ...);
    vector sum[sizeof...(I)];
    ((sum[I] = vector{}), ...);
    for (index p = 0; p < inner; ++p, left += Step, right += Pack ? stride : columns) {
      const vector b[Across] = {load(right + P * width)...};
      if constexpr (Pack) {
        (__builtin_prefetch(right + 8 * stride + P * width), ...);
        (store(b[P], panel + p * columns + P * width), ...);
      }
      (multiply_row(sum + R * Across, left[R * Row], b, across), ...);
    }
    (finish(I / Across < rows, sum[I], add == nullptr ? add : add + I / Across * add_stride + I % Across * width,
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
