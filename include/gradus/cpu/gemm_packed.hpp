#pragma once
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "../core/extent.hpp"
#include "simd.hpp"

namespace gradus::cpu_kit {

#ifndef MR
#define MR 14
#endif
#ifndef KC
#define KC 256
#endif
#ifndef BLK
#define BLK 768
#endif

template <class T, index Rows = MR, index Packs = 2>
class packed_gemm {
 public:
  static void tile(bool transpose_a, bool transpose_b, index m, index n, index k, const T* a, index lda, const T* b,
                   index ldb, const T* bias, T beta, T* c, index ldc) {
    if (transpose_a) run<true>(transpose_b, m, n, k, a, lda, b, ldb, bias, beta, c, ldc);
    else run<false>(transpose_b, m, n, k, a, lda, b, ldb, bias, beta, c, ldc);
  }

 private:
  static constexpr index size = lanes<T>;
  static constexpr index columns = Packs * size;
  static constexpr index depth = KC;
  static constexpr index block = index{BLK} * 1024 / sizeof(T);
  static constexpr index padded_rows = (Rows + size - 1) / size * size;

  static index even_part(index n, index most, index step) {
    const index parts = std::max<index>(1, (n + most - 1) / most);
    return ((n + parts - 1) / parts + step - 1) / step * step;
  }

  template <bool TransposeA>
  static void run(bool transpose_b, index m, index n, index k, const T* a, index lda, const T* b, index ldb,
                  const T* bias, T beta, T* c, index ldc) {
    alignas(64) T left[(TransposeA ? padded_rows : Rows) * depth];
    alignas(64) T right[block];
    const index deep = even_part(k, depth, 8);
    const index wide = even_part(n, block / deep / columns * columns, columns);
    for (index j = 0; j < n; j += wide) {
      const index width = std::min(wide, n - j);
      for (index p = 0; p < k; p += deep) {
        const index inner = std::min(deep, k - p);
        if (transpose_b) pack_transposed(inner, width, b + j * ldb + p, ldb, right);
        else pack_plain(inner, width, b + p * ldb + j, ldb, right);
        const bool first = p == 0;
        for (index i = 0; i < m; i += Rows) {
          const index height = std::min(Rows, m - i);
          pack_left<TransposeA>(inner, height, TransposeA ? a + p * lda + i : a + i * lda + p, lda, left, i + Rows < m);
          for (index q = 0; q < width; q += columns) {
            T* const to = c + i * ldc + j + q;
            const T* const add = first ? bias != nullptr ? bias + j + q : beta != T(0) ? to : nullptr : to;
            const index ld_add = first && bias != nullptr ? 0 : ldc;
            const T* const panel = right + q * inner;
            if (height == Rows && width - q >= columns) {
              multiply<TransposeA>(inner, left, panel, add, ld_add, to, ldc);
            } else {
              alignas(64) T edge[Rows * columns];
              multiply<TransposeA>(inner, left, panel, nullptr, 0, edge, columns);
              for (index r = 0; r < height; ++r)
                for (index s = 0; s < std::min(columns, width - q); ++s)
                  to[r * ldc + s] = add != nullptr ? add[r * ld_add + s] + edge[r * columns + s] : edge[r * columns + s];
            }
          }
        }
      }
    }
  }

  template <bool TransposeA>
  static void pack_left(index inner, index height, const T* a, index lda, T* to, bool more) {
    if constexpr (TransposeA) {
      if (height == Rows)
        for (index p = 0; p < inner; ++p) {
          std::memcpy(to + p * padded_rows, a + p * lda, Rows * sizeof(T));
          if (more) {
            __builtin_prefetch(a + p * lda + Rows + Rows - 1, 0, 2);
          }
        }
      else
        for (index p = 0; p < inner; ++p)
          for (index r = 0; r < Rows; ++r) to[p * padded_rows + r] = r < height ? a[p * lda + r] : T(0);
    } else {
      for (index r = 0; r < Rows; ++r) {
        if (r < height) {
          index p = 0;
          const T* from = a + r * lda;
          const T* next = more ? from + Rows * lda : from;
          for (; p + size <= inner; p += size) {
            pack<T>::load(from + p).store(to + r * depth + p);
            __builtin_prefetch(next + p, 0, 2);
          }
          for (; p < inner; ++p) to[r * depth + p] = from[p];
        } else std::fill_n(to + r * depth, inner, T(0));
      }
    }
  }

  static void pack_plain(index inner, index width, const T* b, index ldb, T* to) {
    for (index q = 0; q < width; q += columns, to += inner * columns) {
      const T* from = b + q;
      if (width - q >= columns)
        for (index p = 0; p < inner; ++p)
          for (index s = 0; s < columns; s += size) pack<T>::load(from + p * ldb + s).store(to + p * columns + s);
      else
        for (index p = 0; p < inner; ++p)
          for (index s = 0; s < columns; ++s) to[p * columns + s] = s < width - q ? from[p * ldb + s] : T(0);
    }
  }

  template <std::size_t... I>
  static GRADUS_INLINE void transpose(pack<T>* x, std::index_sequence<I...>) {
    const auto stage = [&]() __attribute__((always_inline)) {
      pack<T> y[size] = {pack<T>(I % 2 == 0 ? low(x[I / 2], x[I / 2 + size / 2], std::make_index_sequence<size>{})
                                            : high(x[I / 2], x[I / 2 + size / 2], std::make_index_sequence<size>{}))...};
      ((x[I] = y[I]), ...);
    };
    for (index step = 1; step < size; step *= 2) stage();
  }
  template <std::size_t... I>
  static GRADUS_INLINE pack<T> low(pack<T> a, pack<T> b, std::index_sequence<I...>) {
    return pack<T>(__builtin_shufflevector(a.v, b.v, (I / 2 + I % 2 * size)...));
  }
  template <std::size_t... I>
  static GRADUS_INLINE pack<T> high(pack<T> a, pack<T> b, std::index_sequence<I...>) {
    return pack<T>(__builtin_shufflevector(a.v, b.v, (size / 2 + I / 2 + I % 2 * size)...));
  }

  static void pack_transposed(index inner, index width, const T* b, index ldb, T* to) {
    for (index q = 0; q < width; q += columns, to += inner * columns) {
      for (index s = 0; s < columns; s += size) {
        const index count = std::min(size, width - std::min(width, q + s));
        const T* from = b + (q + s) * ldb;
        index p = 0;
        if (count == size)
          for (; p + size <= inner; p += size) square(from + p, ldb, to + p * columns + s, std::make_index_sequence<size>{});
        for (; p < inner; ++p)
          for (index l = 0; l < size; ++l) to[p * columns + s + l] = l < count ? from[l * ldb + p] : T(0);
      }
    }
  }
  template <std::size_t... I>
  static GRADUS_INLINE void square(const T* from, index ld, T* to, std::index_sequence<I...> all) {
    pack<T> x[size] = {pack<T>::load(from + I * ld)...};
    transpose(x, all);
    (x[I].store(to + I * columns), ...);
  }

  template <bool TransposeA>
  static void multiply(index inner, const T* a, const T* b, const T* add, index ld_add, T* c, index ldc) {
    multiply_of<TransposeA ? 1 : depth, TransposeA ? padded_rows : 1>(
        std::make_index_sequence<Rows>{}, std::make_index_sequence<Packs>{}, std::make_index_sequence<Rows * Packs>{},
        inner, a, b, add, ld_add, c, ldc);
  }
  template <index Row, index Step, std::size_t... R, std::size_t... P, std::size_t... I>
  static GRADUS_INLINE void multiply_of(std::index_sequence<R...>, std::index_sequence<P...>, std::index_sequence<I...>,
                                        index inner, const T* a, const T* b, const T* add, index ld_add, T* c,
                                        index ldc) {
    (__builtin_prefetch(c + I / Packs * ldc + I % Packs * size, 1), ...);
    pack<T> sum[sizeof...(I)];
    ((sum[I] = pack<T>(0)), ...);
    for (index p = 0; p < inner; ++p, a += Step, b += columns) {
      const pack<T> right[Packs] = {pack<T>::load(b + P * size)...};
      (add_row(sum + R * Packs, pack<T>(a[R * Row]), right, std::index_sequence<P...>{}), ...);
    }
    if (add != nullptr) ((sum[I] = sum[I] + pack<T>::load(add + I / Packs * ld_add + I % Packs * size)), ...);
    (sum[I].store(c + I / Packs * ldc + I % Packs * size), ...);
  }
  template <std::size_t... P>
  static GRADUS_INLINE void add_row(pack<T>* sum, pack<T> left, const pack<T>* right, std::index_sequence<P...>) {
    ((sum[P].v += left.v * right[P].v), ...);
  }
};

}  // namespace gradus::cpu_kit
