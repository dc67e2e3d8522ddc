#pragma once
// The CPU kernels of layer_norm and rms_norm.

#include <algorithm>
#include <cmath>

#include "../../core/config.hpp"
#include "../../cpu/rows.hpp"
#include "layer_norm.hpp"

namespace gradus {

namespace cpu_kit::inline GRADUS_BUILD {

/// Normalises rows for layer_norm (Centred: subtracts the mean) and rms_norm. Reads a row from memory once; later
/// passes find it in the cache. `means` (if Centred), `rstds` and `b` (no shift) may be null.
///
/// The first mean is rounded at the size of the elements. The second pass finds how far it is off, at the size of their
/// differences, and the third one subtracts that too.
template <bool Centred, class C, class TY, class T, class TW, class TB>
void norm_rows(context<cpu>& ctx, double eps, TY* y, C* means, C* rstds, const T* x, const TW* w, const TB* b,
               index_t rows, index_t columns) {
  for_rows(ctx, rows, columns, 4096, [=](index_t r) {
    const index_t n = columns;
    const T* const row = x + r * n;
    TY* const out = y + r * n;
    C mean = 0;
    if constexpr (Centred)
      mean = sum_packs<C>(n, [&](index_t i, auto which) { return load<C>(row + i, which); }) / static_cast<C>(n);
    const pack<C> middle(mean);
    const auto distance = [&](index_t i, auto which) {
      __builtin_prefetch(row + n + i);  // the next row, while this one is in the cache
      return inside_or(load<C>(row + i, which) - middle, C(0), which);
    };
    C off = 0, squares = 0;
    if constexpr (Centred) {
      struct sums {
        pack<C> distances, squares;
      };
      double first = 0, second = 0;
      for (index_t begin = 0; begin < n; begin += 4096) {
        const sums of = fold_packs<C, 2>(
            std::min<index_t>(4096, n - begin), sums{pack<C>(0), pack<C>(0)},
            [](const sums& left, const sums& right) {
              return sums{left.distances + right.distances, left.squares + right.squares};
            },
            [&](index_t i, auto which) {
              const pack<C> d = distance(begin + i, which);
              return sums{d, d * d};
            });
        first += static_cast<double>(sum_lanes(of.distances));
        second += static_cast<double>(sum_lanes(of.squares));
      }
      off = static_cast<C>(first) / static_cast<C>(n);
      squares = static_cast<C>(second);
    } else {
      squares = sum_packs<C>(n, [&](index_t i, auto which) {
        const pack<C> d = distance(i, which);
        return d * d;
      });
    }
    const C variance = std::max(squares / static_cast<C>(n) - off * off, C(0));  // not below 0 by its rounding
    const C rstd = C(1) / std::sqrt(variance + static_cast<C>(eps));
    const pack<C> scale(rstd), rest(off);
    for_packs<C>(n, [&](index_t i, auto which) {
      pack<C> v = load<C>(row + i, which) - middle;
      if constexpr (Centred) v = v - rest;
      v = v * scale * load<C>(w + i, which);
      if (b != nullptr) v = v + load<C>(b + i, which);
      store(v, out + i, which);
    });
    if (Centred && means != nullptr) means[r] = mean + off;
    if (rstds != nullptr) rstds[r] = rstd;
  });
}

/// to (+)= the sum of `count` rows of partial sums, `stride` apart, in order.
template <class C, class T>
void add_partial_rows(context<cpu>& ctx, elementwise_target<T> to, const C* partial, index_t count, index_t stride,
                      index_t columns) {
  parallel_elements(ctx, columns, 256, [=](index_t first, index_t last) {
    for_packs<C>(last - first, [&](index_t i, auto which) {
      pack<C> sum = load<C>(partial + first + i, which);
      for (index_t k = 1; k < count; ++k) sum = sum + load<C>(partial + k * stride + first + i, which);
      put(sum, to.data + first + i, to.accumulate, which);
    });
  });
}

/// Accumulates dw and db in `partial` [blocks of `block` rows, 2, columns], block by block; null if neither is needed.
template <bool Centred, class C, class TDX, class TDW, class TDB, class TY, class T, class TW>
void norm_rows_backward(context<cpu>& ctx, elementwise_target<TDX> dx, elementwise_target<TDW> dw,
                        elementwise_target<TDB> db, C* partial, const TY* dy, const T* x, const TW* w, const C* means,
                        const C* rstds, index_t rows, index_t columns, index_t block) {
  parallel_ranges(ctx, rows, block, [=](index_t first, index_t last) {
    const index_t n = columns;
    C* const sum_w = partial == nullptr ? nullptr : partial + first / block * 2 * n;
    C* const sum_b = sum_w + (partial == nullptr ? 0 : n);
    for (index_t r = first; r < last; ++r) {
      const T* const row = x + r * n;
      const TY* const grad = dy + r * n;
      const pack<C> middle(Centred ? means[r] : C(0));
      const pack<C> scale(rstds[r]);
      // One pass over the rows for the sums of columns and of the row.
      pack<C> sum_g(0), sum_gx(0);
      const bool add = r != first;
      for_packs<C>(n, [&](index_t i, auto which) {
        const pack<C> d = load<C>(grad + i, which);
        const pack<C> distance = load<C>(row + i, which) - middle;
        if (sum_w != nullptr) {
          put(d * (distance * scale), sum_w + i, add, which);
          if constexpr (Centred) put(d, sum_b + i, add, which);
        }
        const pack<C> g = d * load<C>(w + i, which);
        if constexpr (Centred) sum_g = sum_g + g;
        sum_gx = multiply_add(g, distance, sum_gx);
      });
      if (dx.data == nullptr) continue;
      const pack<C> mean_g(Centred ? sum_lanes(sum_g) / static_cast<C>(n) : C(0));
      const pack<C> mean_gx(sum_lanes(sum_gx) * rstds[r] / static_cast<C>(n));
      TDX* const out = dx.data + r * n;
      for_packs<C>(n, [&](index_t i, auto which) {
        __builtin_prefetch(row + n + i);
        __builtin_prefetch(grad + n + i);
        const pack<C> g = load<C>(grad + i, which) * load<C>(w + i, which);
        const pack<C> normal = (load<C>(row + i, which) - middle) * scale;
        put(scale * (g - mean_g - normal * mean_gx), out + i, dx.accumulate, which);
      });
    }
  });
  const index_t blocks = (rows + block - 1) / block;
  if (dw.data != nullptr) add_partial_rows(ctx, dw, partial, blocks, 2 * columns, columns);
  if (db.data != nullptr) add_partial_rows(ctx, db, partial + columns, blocks, 2 * columns, columns);
}

}  // namespace cpu_kit::inline GRADUS_BUILD

template <>
struct kernel<op::layer_norm, cpu> {
  template <class TY, class C, class T, class TW, class TB>
  static void forward(context<cpu>& ctx, double eps, matrix_extents of, TY* y, C* kept, const T* x, const TW* w,
                      const TB* b) {
    C* const rstds = kept == nullptr ? nullptr : kept + of.rows;
    cpu_kit::norm_rows<true>(ctx, eps, y, kept, rstds, x, w, b, of.rows, of.columns);
  }
  template <class TDX, class TDW, class TDB, class C, class TY, class T, class TW>
  static void backward(context<cpu>& ctx, matrix_extents of, elementwise_target<TDX> dx, elementwise_target<TDW> dw,
                       elementwise_target<TDB> db, C* partial, const TY* dy, const T* x, const TW* w, const C* kept) {
    cpu_kit::norm_rows_backward<true>(ctx, dx, dw, db, partial, dy, x, w, kept, kept + of.rows, of.rows, of.columns,
                                      detail::norm_block(of.rows));
  }
};

}  // namespace gradus
