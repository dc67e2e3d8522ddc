#pragma once
#include <cmath>

#include "../../core/config.hpp"
#include "../../cpu/parallel.hpp"
#include "../../cpu/rows.hpp"
#include "layer_norm.hpp"

namespace gradus {

namespace cpu_kit::inline GRADUS_BUILD {

/// Normalisation of rows, shared by layer_norm (Centred: the mean is taken off) and rms_norm. A row is read from memory
/// once: the later passes over it find it in the cache.
template <class Shape, bool Centred>
struct row_norm {
  static constexpr index_t rows = rows_of<Shape>;
  static constexpr index_t columns = columns_of<Shape>;
  static constexpr index_t grain = columns >= 4096 ? 1 : 4096 / columns;

  /// `means` (if Centred) and `rstds` may be null: nobody wants them. `b` may be null: no shift.
  template <class C, class TY, class T, class TW, class TB>
  static void forward(context<cpu>& ctx, double eps, TY* y, C* means, C* rstds, const T* x, const TW* w, const TB* b) {
    parallel_elements(ctx, rows, grain, [=](index_t first, index_t last) {
      for (index_t r = first; r < last; ++r) {
        const T* row = x + r * columns;
        TY* out = y + r * columns;
        C mean = 0;
        if constexpr (Centred)
          mean =
              sum_packs<C>(columns, [&](index_t i, auto n) { return load<C>(row + i, n); }) / static_cast<C>(columns);
        const pack<C> middle(mean);
        const C squares = sum_packs<C>(columns, [&](index_t i, auto n) {
          __builtin_prefetch(row + columns + i);  // what memory has to bring next, while this row is in the cache
          const pack<C> d = inside_or(load<C>(row + i, n) - middle, C(0), n);
          return d * d;
        });
        const C rstd = C(1) / std::sqrt(squares / static_cast<C>(columns) + static_cast<C>(eps));
        const pack<C> scale(rstd);
        for_packs<C>(columns, [&](index_t i, auto n) {
          pack<C> v = (load<C>(row + i, n) - middle) * scale * load<C>(w + i, n);
          if (b != nullptr) v = v + load<C>(b + i, n);
          store(v, out + i, n);
        });
        if (Centred && means != nullptr) means[r] = mean;
        if (rstds != nullptr) rstds[r] = rstd;
      }
    });
  }

  /// `partial` [blocks, 2, columns] accumulates dw and db block by block; null when neither is wanted.
  template <class C, class TDX, class TDW, class TDB, class TY, class T, class TW>
  static void backward(context<cpu>& ctx, elementwise_target<TDX> dx, elementwise_target<TDW> dw,
                       elementwise_target<TDB> db, C* partial, const TY* dy, const T* x, const TW* w, const C* means,
                       const C* rstds) {
    using blocks = gradus::detail::norm_blocks<Shape>;
    parallel_ranges(ctx, rows, blocks::rows_in_block, [=](index_t first, index_t last) {
      C* sum_w = partial == nullptr ? nullptr : partial + first / blocks::rows_in_block * 2 * columns;
      C* sum_b = sum_w + (partial == nullptr ? 0 : columns);
      for (index_t r = first; r < last; ++r) {
        const T* row = x + r * columns;
        const TY* grad = dy + r * columns;
        const pack<C> middle(Centred ? means[r] : C(0));
        const pack<C> scale(rstds[r]);
        // The rows are read once for all sums: those of the columns, and those of the row.
        pack<C> sum_g(0);
        pack<C> sum_gx(0);
        const bool add = r != first;
        for_packs<C>(columns, [&](index_t i, auto n) {
          const pack<C> d = load<C>(grad + i, n);
          const pack<C> distance = load<C>(row + i, n) - middle;
          if (partial != nullptr) {
            put(d * (distance * scale), sum_w + i, add, n);
            if constexpr (Centred) put(d, sum_b + i, add, n);
          }
          const pack<C> g = d * load<C>(w + i, n);
          if constexpr (Centred) sum_g = sum_g + g;
          sum_gx = sum_gx + g * distance;
        });
        if (dx.data == nullptr) continue;
        const pack<C> mean_g(Centred ? sum_lanes(sum_g) / static_cast<C>(columns) : C(0));
        const pack<C> mean_gx(sum_lanes(sum_gx) * rstds[r] / static_cast<C>(columns));
        TDX* out = dx.data + r * columns;
        for_packs<C>(columns, [&](index_t i, auto n) {
          __builtin_prefetch(row + columns + i);
          __builtin_prefetch(grad + columns + i);
          const pack<C> g = load<C>(grad + i, n) * load<C>(w + i, n);
          const pack<C> normal = (load<C>(row + i, n) - middle) * scale;
          put(scale * (g - mean_g - normal * mean_gx), out + i, dx.accumulate, n);
        });
      }
    });
    if (dw.data != nullptr) combine(ctx, dw, partial);
    if (db.data != nullptr) combine(ctx, db, partial + columns);
  }

 private:
  // Adds up the blocks' partial sums in their order.
  template <class C, class T>
  static void combine(context<cpu>& ctx, elementwise_target<T> to, const C* partial) {
    using blocks = gradus::detail::norm_blocks<Shape>;
    parallel_elements(ctx, columns, 256, [=](index_t first, index_t last) {
      for_packs<C>(last - first, [&](index_t i, auto n) {
        pack<C> sum = load<C>(partial + first + i, n);
        for (index_t k = 1; k < blocks::count; ++k) sum = sum + load<C>(partial + k * 2 * columns + first + i, n);
        put(sum, to.data + first + i, to.accumulate, n);
      });
    });
  }
};

}  // namespace cpu_kit::inline GRADUS_BUILD

template <>
struct kernel<op::layer_norm, cpu> {
  template <class TY, class T, class X, class C, class S, class TW, class W, class TB>
  static void forward(context<cpu>& ctx, double eps, view<TY, X> y, view<C, S> kept, view<const T, X> x,
                      view<const TW, W> w, view<const TB, W> b) {
    C* rstds = kept.data() == nullptr ? nullptr : kept.data() + rows_of<X>;
    cpu_kit::row_norm<X, true>::template forward<C>(ctx, eps, y.data(), kept.data(), rstds, x.data(), w.data(),
                                                    b.data());
  }
  template <class TDX, class TDW, class TDB, class C, class TY, class T, class X, class TW, class W, class S>
  static void backward(context<cpu>& ctx, elementwise_target<TDX> dx, elementwise_target<TDW> dw,
                       elementwise_target<TDB> db, C* partial, view<const TY, X> dy, view<const T, X> x,
                       view<const TW, W> w, view<const C, S> kept) {
    cpu_kit::row_norm<X, true>::template backward<C>(ctx, dx, dw, db, partial, dy.data(), x.data(), w.data(),
                                                     kept.data(), kept.data() + rows_of<X>);
  }
};

}  // namespace gradus
