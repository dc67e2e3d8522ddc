#pragma once
// The CPU kernels of logsumexp.

#include <cmath>
#include <limits>

#include "../../core/config.hpp"
#include "../../cpu/rows.hpp"
#include "../../cpu/simd_math.hpp"
#include "../../precision/promotion.hpp"
#include "logsumexp.hpp"

namespace gradus {

template <>
struct kernel<op::logsumexp, cpu> {
  /// Each row in two passes in the cache: its maximum; the sum of exponentials of the distances from it. A row of -inf
  /// keeps 0 for 1 / sum, so that its gradient is 0. Beside +inf the gradient of finite elements is 0.
  template <class TY, class TK, class T>
  static void forward(context<cpu>& ctx, matrix_extents of, TY* y, TK* kept, const T* x) {
    using namespace cpu_kit;
    using C = compute_type<promote<TY, T>>;
    for_rows(ctx, of.rows, of.columns, 4096, [=](index_t row) {
      const index_t n = of.columns;
      const T* const from = x + row * n;
      const C largest = largest_of<C>(from, n), infinite = std::numeric_limits<C>::infinity();
      const C top = largest == -infinite ? C(0) : largest;
      const C sum = sum_packs<C, 1>(n, [&](index_t i, auto which) {
        return inside_or(exp(load<C>(from + i, which) - pack<C>(top)), C(0), which);
      });
      y[row] = static_cast<TY>(largest == infinite ? largest : top + std::log(sum));
      if (!kept) return;
      kept[2 * row] = static_cast<TK>(top);
      kept[2 * row + 1] = static_cast<TK>(largest == infinite ? C(1) : sum == 0 ? C(0) : 1 / sum);
    });
  }
  template <class TDX, class TDY, class T, class TK>
  static void backward(context<cpu>& ctx, matrix_extents of, TDX* dx, bool accumulate, const TDY* dy, const T* x,
                       const TK* kept) {
    using namespace cpu_kit;
    using C = compute_type<promote<promote<TDY, T>, promote<TK, TDX>>>;
    for_rows(ctx, of.rows, of.columns, 4096, [=](index_t row) {
      const index_t n = of.columns;
      const T* const from = x + row * n;
      TDX* const to = dx + row * n;
      const pack<C> top(static_cast<C>(kept[2 * row]));
      const pack<C> grad(static_cast<C>(kept[2 * row + 1]) * static_cast<C>(dy[row]));
      for_packs<C>(n, [&](index_t i, auto which) {
        put(exp(load<C>(from + i, which) - top) * grad, to + i, accumulate, which);
      });
    });
  }
};

}  // namespace gradus
