#pragma once
// The CPU kernels of softmax.

#include <cmath>

#include "../../core/config.hpp"
#include "../../cpu/rows.hpp"
#include "../../cpu/simd_math.hpp"
#include "../../precision/promotion.hpp"
#include "softmax.hpp"

namespace gradus {

template <bool Log>
struct kernel<op::softmax<Log>, cpu> {
  /// Each row in three passes in the cache: its maximum; the exponentials and their sum; the scaling.
  template <class TY, class T>
  static void forward(context<cpu>& ctx, matrix_extents of, TY* y, const T* x) {
    using namespace cpu_kit;
    using C = compute_type<promote<TY, T>>;
    for_rows(ctx, of.rows, of.columns, 4096, [=](index_t row) {
      const index_t n = of.columns;
      const T* const from = x + row * n;
      TY* const to = y + row * n;
      const pack<C> top(largest_of<C>(from, n));
      const C sum = sum_packs<C, 1>(n, [&](index_t i, auto which) {
        __builtin_prefetch(from + n + i);  // the next row
        const pack<C> e = inside_or(exp(load<C>(from + i, which) - top), C(0), which);
        if constexpr (!Log) store(e, to + i, which);
        return e;
      });
      const pack<C> scale(Log ? std::log(sum) : C(1) / sum);
      for_packs<C>(n, [&](index_t i, auto which) {
        if constexpr (Log) store(load<C>(from + i, which) - top - scale, to + i, which);
        else store(load<C>(to + i, which) * scale, to + i, which);
      });
    });
  }
  template <class TDX, class T>
  static void backward(context<cpu>& ctx, matrix_extents of, TDX* dx, bool accumulate, const T* dy, const T* y) {
    using namespace cpu_kit;
    using C = compute_type<promote<T, TDX>>;
    for_rows(ctx, of.rows, of.columns, 4096, [=](index_t row) {
      const index_t n = of.columns;
      const T* const grad = dy + row * n;
      const T* const out = y + row * n;
      TDX* const to = dx + row * n;
      const pack<C> sum(sum_packs<C, 1>(n, [&](index_t i, auto which) {
        const pack<C> g = load<C>(grad + i, which);
        return Log ? g : g * load<C>(out + i, which);
      }));
      for_packs<C>(n, [&](index_t i, auto which) {
        __builtin_prefetch(grad + n + i);
        __builtin_prefetch(out + n + i);
        const pack<C> g = load<C>(grad + i, which), v = load<C>(out + i, which);
        put(Log ? g - exp(v) * sum : v * (g - sum), to + i, accumulate, which);
      });
    });
  }
};

}  // namespace gradus
