#pragma once
// The CUDA kernels of nll: a row per warp or block, then one block for the sums. A target out of range makes the loss
// NaN.

#include <cmath>

#include "../../gpu/rows.hpp"
#include "../../precision/promotion.hpp"
#include "nll.hpp"

namespace gradus {

namespace cuda_kit {

inline constexpr int nll_threads = 1024;  ///< of the block that sums

template <int Threads, class T, class Id, class W>
__global__ void __launch_bounds__(long_row_threads) nll_row_kernel(nll_task task, double* losses, double* row_weights,
                                                                   const T* x, const Id* targets, const W* weights) {
  using C = compute_type<promote<T, W>>;
  const index_t row = static_cast<index_t>(blockIdx.x) * rows_in_block(Threads) + threadIdx.x / Threads;
  if (row >= task.rows) return;
  const T* const from = x + row * task.columns;
  const auto target = static_cast<long long>(targets[row]);
  const bool counts = target != task.options.ignore;
  C sum = 0;
  if (counts && task.options.smoothing != 0)
    for (index_t i = threadIdx.x % Threads; i < task.columns; i += Threads)
      sum += static_cast<C>(from[i]) * (weights == nullptr ? C(1) : static_cast<C>(weights[i]));
  sum = row_sum<Threads>(sum);
  if (threadIdx.x % Threads != 0) return;
  const bool valid = target >= 0 && target < static_cast<long long>(task.columns);
  const double weight =
      !counts || !valid || weights == nullptr ? 1.0 : static_cast<double>(static_cast<C>(weights[target]));
  const double at_target = valid ? static_cast<double>(static_cast<C>(from[target])) : static_cast<double>(NAN);
  row_weights[row] = counts ? weight : 0.0;
  losses[row] = !counts ? 0.0
                        : (task.options.smoothing - 1) * weight * at_target -
                              task.options.smoothing / static_cast<double>(task.columns) * static_cast<double>(sum);
}

template <class L>
__global__ void __launch_bounds__(nll_threads)
    nll_sum_kernel(nll_task task, L* y, double* total, const double* losses, const double* row_weights) {
  double loss = 0, weight = 0;
  for (index_t r = threadIdx.x; r < task.rows; r += nll_threads) {
    if (task.by_row) y[r] = convert_element<L>(losses[r]);
    loss += losses[r];
    weight += row_weights[r];
  }
  loss = row_sum<nll_threads>(loss);
  weight = row_sum<nll_threads>(weight);
  if (threadIdx.x != 0) return;
  *total = gradus::detail::nll_divisor(task, weight);
  if (!task.by_row) *y = convert_element<L>(loss / *total);
}

template <int Threads, class TDX, class TDY, class Id, class W>
__global__ void __launch_bounds__(long_row_threads)
    nll_gradient_kernel(nll_task task, TDX* dx, bool accumulate, const TDY* dy, const double* total, const Id* targets,
                        const W* weights) {
  using C = compute_type<promote<TDX, W>>;
  const index_t row = static_cast<index_t>(blockIdx.x) * rows_in_block(Threads) + threadIdx.x / Threads;
  if (row >= task.rows) return;
  const auto target = static_cast<long long>(targets[row]);
  const double grad =
      target == task.options.ignore ? 0.0 : static_cast<double>(static_cast<C>(dy[task.by_row ? row : 0])) / *total;
  const C everywhere = static_cast<C>(-grad * task.options.smoothing / static_cast<double>(task.columns));
  const C at_target = static_cast<C>(grad * (task.options.smoothing - 1)) + everywhere;
  TDX* const to = dx + row * task.columns;
  for (index_t i = threadIdx.x % Threads; i < task.columns; i += Threads) {
    const C weight = weights == nullptr ? C(1) : static_cast<C>(weights[i]);
    const C share = target == static_cast<long long>(i) ? at_target : everywhere;
    put<1, true>(to + i, accumulate, 1, [&](int) { return share * weight; });
  }
}

}  // namespace cuda_kit

template <>
struct kernel<op::nll<reduction::mean>, cuda> {
  template <class L, class T, class Id, class W>
  static void forward(context<cuda>& ctx, const nll_task& task, L* y, double* total, double* losses, const T* x,
                      const Id* targets, const W* weights) {
    using namespace cuda_kit;
    double* const row_weights = losses + task.rows;
    for_row_threads(task.rows, task.columns, [&](auto threads, unsigned blocks, int block) {
      launch(ctx, &nll_row_kernel<decltype(threads)::value, T, Id, W>, blocks, block, task, losses, row_weights, x,
             targets, weights);
    });
    launch(ctx, &nll_sum_kernel<L>, 1, nll_threads, task, y, total, losses, row_weights);
  }
  template <class TDX, class L, class Id, class W>
  static void backward(context<cuda>& ctx, const nll_task& task, TDX* dx, bool accumulate, const L* dy,
                       const double* total, const Id* targets, const W* weights) {
    using namespace cuda_kit;
    for_row_threads(task.rows, task.columns, [&](auto threads, unsigned blocks, int block) {
      launch(ctx, &nll_gradient_kernel<decltype(threads)::value, TDX, L, Id, W>, blocks, block, task, dx, accumulate,
             dy, total, targets, weights);
    });
  }
};

}  // namespace gradus
