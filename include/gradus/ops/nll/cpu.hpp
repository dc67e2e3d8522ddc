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

namespace cpu_kit::inline GRADUS_BUILD {

/// The loss of each row, and the weight of its target.
template <class T, class I, class W>
void nll_rows(context<cpu>& ctx, const nll_task& task, double* losses, double* row_weights, const T* x,
              const I* targets, const W* weights) {
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
}

/// dx (+)= the gradient, for dy divided by `divisor`.
template <class TDX, class TDY, class I, class W>
void nll_rows_backward(context<cpu>& ctx, const nll_task& task, TDX* dx, bool accumulate, const TDY* dy, double divisor,
                       const I* targets, const W* weights) {
  using C = compute_type<promote<TDX, W>>;
  for_rows(ctx, task.rows, task.columns, 8192, [=](index_t row) {
    const index_t n = task.columns;
    TDX* const to = dx + row * n;
    const bool counts = !std::cmp_equal(targets[row], task.options.ignore);
    const index_t target = counts ? static_cast<index_t>(targets[row]) : 0;
    const double grad = counts ? static_cast<double>(static_cast<C>(dy[task.by_row ? row : 0])) / divisor : 0;
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

}  // namespace cpu_kit::inline GRADUS_BUILD

template <reduction R>
struct kernel<op::nll<R>, cpu> {
  template <class L, class Y, class Rows, class T, class X, class I, class Targets, class W>
  static void forward(context<cpu>& ctx, const nll_task& task, view<L, Y> y, view<double, shape<>> total,
                      view<double, Rows> rows, view<const T, X> x, view<const I, Targets> targets, const W* weights) {
    cpu_kit::counted_targets("nll_loss, cross_entropy(x, targets)", task.options.ignore, task.columns, targets.data(),
                             task.rows);
    double* const losses = rows.data();
    double* const row_weights = losses + task.rows;
    cpu_kit::nll_rows(ctx, task, losses, row_weights, x.data(), targets.data(), weights);
    double loss = 0, weight = 0;
    for (index_t r = 0; r < task.rows; ++r) {
      if (task.by_row) y.data()[r] = static_cast<L>(static_cast<compute_type<L>>(losses[r]));
      loss += losses[r];
      weight += row_weights[r];
    }
    *total.data() = gradus::detail::nll_divisor(task, weight);
    if (!task.by_row) *y.data() = static_cast<L>(static_cast<compute_type<L>>(loss / *total.data()));
  }
  template <class T, class X, class L, class Y, class I, class Targets, class W>
  static void backward(context<cpu>& ctx, const nll_task& task, view<T, X> dx, bool accumulate, view<const L, Y> dy,
                       view<const double, shape<>> total, view<const I, Targets> targets, const W* weights) {
    cpu_kit::nll_rows_backward(ctx, task, dx.data(), accumulate, dy.data(), *total.data(), targets.data(), weights);
  }
};

}  // namespace gradus
