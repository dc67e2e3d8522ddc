#pragma once
// The CPU kernels of logsumexp.

#include <cmath>

#include "../../core/config.hpp"
#include "../../cpu/rows.hpp"
#include "../../cpu/simd_math.hpp"
#include "../../precision/promotion.hpp"
#include "logsumexp.hpp"

namespace gradus {

namespace cpu_kit::inline GRADUS_BUILD {

/// Each row in two passes in the cache: its maximum; the sum of exponentials of the distances from it.
template <class TY, class T>
void logsumexp_rows(context<cpu>& ctx, TY* y, const T* x, index_t rows, index_t columns) {
  using C = compute_type<promote<TY, T>>;
  for_rows(ctx, rows, columns, 4096, [=](index_t row) {
    const index_t n = columns;
    const T* const from = x + row * n;
    const C largest = largest_of<C>(from, n), top = std::isinf(largest) ? C(0) : largest;
    const C sum = sum_packs<C, 1>(
        n, [&](index_t i, auto which) { return inside_or(exp(load<C>(from + i, which) - pack<C>(top)), C(0), which); });
    y[row] = static_cast<TY>(top + std::log(sum));
  });
}

template <class TDX, class TDY, class T, class TY>
void logsumexp_rows_backward(context<cpu>& ctx, TDX* dx, bool accumulate, const TDY* dy, const T* x, const TY* y,
                             index_t rows, index_t columns) {
  using C = compute_type<promote<promote<TDY, T>, promote<TY, TDX>>>;
  for_rows(ctx, rows, columns, 4096, [=](index_t row) {
    const index_t n = columns;
    const T* const from = x + row * n;
    TDX* const to = dx + row * n;
    const C out = static_cast<C>(y[row]), top = std::isinf(out) ? C(0) : out;
    const pack<C> shift(top), grad(static_cast<C>(dy[row]));
    for_packs<C>(n, [&](index_t i, auto which) {
      put(exp(load<C>(from + i, which) - shift) * grad, to + i, accumulate, which);
    });
  });
}

}  // namespace cpu_kit::inline GRADUS_BUILD

template <>
struct kernel<op::logsumexp, cpu> {
  template <class TY, class SY, class T, class S>
  static void forward(context<cpu>& ctx, view<TY, SY> y, view<const T, S> x) {
    cpu_kit::logsumexp_rows(ctx, y.data(), x.data(), rows_of<S>, columns_of<S>);
  }
  template <class TDX, class S, class TDY, class SY, class T, class TY>
  static void backward(context<cpu>& ctx, view<TDX, S> dx, bool accumulate, view<const TDY, SY> dy, view<const T, S> x,
                       view<const TY, SY> y) {
    cpu_kit::logsumexp_rows_backward(ctx, dx.data(), accumulate, dy.data(), x.data(), y.data(), rows_of<S>,
                                     columns_of<S>);
  }
};

}  // namespace gradus
