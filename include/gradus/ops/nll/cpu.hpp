#pragma once
// The CPU kernels of nll.

#include <type_traits>
#include <utility>

#include "../../core/config.hpp"
#include "../../cpu/rows.hpp"
#include "../../precision/promotion.hpp"
#include "../cross_entropy/cpu.hpp"
#include "nll.hpp"

namespace gradus {

template <>
struct kernel<op::nll<reduction::mean>, cpu> {
  template <class L, class T, class Id, class W>
  static void forward(context<cpu>& ctx, const nll_task& task, L* y, double* total, double* losses, const T* x,
                      const Id* targets, const W* weights) {
    using namespace cpu_kit;
    counted_targets("nll_loss, cross_entropy(x, targets)", task.options.ignore, task.columns, targets, task.rows);
    double* const row_weights = losses + task.rows;
    using C = compute_type<promote<T, W>>;
    for_rows(ctx, task.rows, task.columns, 8192, [=](index_t row) {
      losses[row] = row_weights[row] = 0;
      if (std::cmp_equal(targets[row], task.options.ignore)) return;
      const index_t n = task.columns;
      const T* const from = x + row * n;
      const auto target = static_cast<index_t>(targets[row]);
      const double smoothing = task.options.smoothing;
      row_weights[row] = weights == nullptr ? 1.0 : static_cast<double>(static_cast<C>(weights[target]));
      losses[row] = (smoothing - 1) * row_weights[row] * static_cast<double>(static_cast<C>(from[target]));
      if (smoothing == 0) return;
      const C sum = sum_packs<C>(n, [&](index_t i, auto which) {
        const pack<C> v = load<C>(from + i, which);
        return weights == nullptr ? v : v * load<C>(weights + i, which);
      });
      losses[row] -= smoothing / static_cast<double>(n) * static_cast<double>(sum);
    });
    double loss = 0, weight = 0;
    for (index_t r = 0; r < task.rows; ++r) {
      if (task.by_row) y[r] = static_cast<L>(static_cast<compute_type<L>>(losses[r]));
      loss += losses[r];
      weight += row_weights[r];
    }
    *total = gradus::detail::nll_divisor(task, weight);
    if (!task.by_row) *y = static_cast<L>(static_cast<compute_type<L>>(loss / *total));
  }
  /// dx (+)= the gradient.
  template <class TDX, class L, class Id, class W>
  static void backward(context<cpu>& ctx, const nll_task& task, TDX* dx, bool accumulate, const L* dy,
                       const double* total, const Id* targets, const W* weights) {
    using namespace cpu_kit;
    using C = compute_type<promote<TDX, W>>;
    for_rows(ctx, task.rows, task.columns, 8192, [=](index_t row) {
      const index_t n = task.columns;
      TDX* const to = dx + row * n;
      const bool counts = !std::cmp_equal(targets[row], task.options.ignore);
      const index_t target = counts ? static_cast<index_t>(targets[row]) : 0;
      const double grad = counts ? static_cast<double>(static_cast<C>(dy[task.by_row ? row : 0])) / *total : 0;
      const C before = accumulate ? static_cast<C>(to[target]) : C(0),
              everywhere = static_cast<C>(-grad * task.options.smoothing / static_cast<double>(n));
      for_packs<C>(n, [&](index_t i, auto which) {
        const pack<C> w = weights == nullptr ? pack<C>(1) : load<C>(weights + i, which);
        put(pack<C>(everywhere) * w, to + i, accumulate, which);
      });
      const C weight = weights == nullptr ? C(1) : static_cast<C>(weights[target]);
      const C at_target = static_cast<C>(grad * (task.options.smoothing - 1)) + everywhere;
      to[target] = static_cast<TDX>(before + weight * at_target);
    });
  }
};

}  // namespace gradus
