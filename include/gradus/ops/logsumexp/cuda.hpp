#pragma once
// The CUDA kernels of logsumexp.

#include "../../core/math.hpp"
#include "../../cuda/rows.hpp"
#include "../../precision/promotion.hpp"
#include "logsumexp.hpp"

namespace gradus {

namespace cuda_kit {

template <index_t Columns, class TY, class T>
__global__ void __launch_bounds__(row_layout<Columns, T, T>::block) logsumexp_kernel(TY* y, const T* x, index_t rows) {
  using C = compute_type<promote<TY, T>>;
  using layout = row_layout<Columns, T, T>;
  const index_t row = layout::first_row();
  if (row >= rows) return;  // for all threads of a warp, or for none
  const held_row<layout, T> values(x + row * Columns);
  C most = -INFINITY;
  layout::each([&](int slot, int at) {
    const auto v = values.run(slot, at);
#pragma unroll
    for (int i = 0; i < layout::width; ++i)
      if (const C one = static_cast<C>(v.at[i]); one > most) most = one;
  });
  const C largest = row_max<layout::threads>(most), top = isinf(largest) ? C(0) : largest;
  C total = 0;
  layout::each([&](int slot, int at) {
    const auto v = values.run(slot, at);
#pragma unroll
    for (int i = 0; i < layout::width; ++i) total += math::exp(static_cast<C>(v.at[i]) - top);
  });
  const C sum = row_sum<layout::threads>(total);
  if (threadIdx.x % layout::threads == 0) y[row] = static_cast<TY>(top + math::log(sum));
}

template <index_t Columns, class TDX, class TDY, class T, class TY>
__global__ void __launch_bounds__(row_layout<Columns, TDX, T>::block)
    logsumexp_gradient_kernel(TDX* dx, bool accumulate, const TDY* dy, const T* x, const TY* y, index_t rows) {
  using C = compute_type<promote<promote<TDY, T>, promote<TY, TDX>>>;
  using layout = row_layout<Columns, TDX, T>;
  const index_t row = layout::first_row();
  if (row >= rows) return;
  const held_row<layout, T> values(x + row * Columns);
  const C out = static_cast<C>(y[row]), top = isinf(out) ? C(0) : out, grad = static_cast<C>(dy[row]);
  layout::each([&](int slot, int at) {
    const auto v = values.run(slot, at);
    put<layout::width, true>(dx + row * Columns + at, accumulate, layout::width,
                             [&](int i) { return math::exp(static_cast<C>(v.at[i]) - top) * grad; });
  });
}

}  // namespace cuda_kit

/// Keeps a row in registers, read once; rows of more than 32768 floats are read twice.
template <>
struct kernel<op::logsumexp, cuda> {
  template <class TY, class SY, class T, class S>
  static void forward(context<cuda>& ctx, view<TY, SY, cuda> y, view<const T, S, cuda> x) {
    using layout = cuda_kit::row_layout<columns_of<S>, T, T>;
    cuda_kit::launch(ctx, &cuda_kit::logsumexp_kernel<columns_of<S>, TY, T>, layout::blocks(rows_of<S>), layout::block,
                     y.data(), x.data(), rows_of<S>);
  }
  template <class TDX, class S, class TDY, class SY, class T, class TY>
  static void backward(context<cuda>& ctx, view<TDX, S, cuda> dx, bool accumulate, view<const TDY, SY, cuda> dy,
                       view<const T, S, cuda> x, view<const TY, SY, cuda> y) {
    using layout = cuda_kit::row_layout<columns_of<S>, TDX, T>;
    cuda_kit::launch(ctx, &cuda_kit::logsumexp_gradient_kernel<columns_of<S>, TDX, TDY, T, TY>,
                     layout::blocks(rows_of<S>), layout::block, dx.data(), accumulate, dy.data(), x.data(), y.data(),
                     rows_of<S>);
  }
};

}  // namespace gradus
