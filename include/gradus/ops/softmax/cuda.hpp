#pragma once
// The CUDA kernels of softmax.

#include "../../core/math.hpp"
#include "../../gpu/rows.hpp"
#include "../../precision/promotion.hpp"
#include "softmax.hpp"

namespace gradus {

namespace cuda_kit {

/// y may be x: a thread reads its part of a row before any thread of the row writes, or writes what it alone reads.
template <bool Log, index_t Columns, class TY, class T>
__global__ void __launch_bounds__(row_layout<Columns, TY, T>::block) softmax_kernel(TY* y, const T* x, index_t rows) {
  using C = compute_type<promote<TY, T>>;
  using layout = row_layout<Columns, TY, T>;
  const index_t row = layout::first_row();
  if (row >= rows) return;  // for all threads of a warp, or for none
  const held_row<layout, T> values(x + row * Columns);
  TY* const to = y + row * Columns;
  const C top = values.template largest<C>();
  const C sum = values.exp_sum(top);
  const C shift = Log ? math::log(sum) : C(1) / sum;
  layout::each([&](int slot, int at) {
    const auto v = values.run(slot, at);
    put<layout::width, true>(to + at, false, layout::width, [&](int i) {
      const C distance = static_cast<C>(v.at[i]) - top;
      if constexpr (Log) return distance - shift;
      else return math::exp(distance) * shift;
    });
  });
}

template <bool Log, index_t Columns, class T, class TY>
__global__ void __launch_bounds__(row_layout<Columns, T, TY>::block)
    softmax_gradient_kernel(T* dx, bool accumulate, const TY* dy, const TY* y, index_t rows) {
  using C = compute_type<promote<TY, T>>;
  using layout = row_layout<Columns, T, TY>;
  const index_t row = layout::first_row();
  if (row >= rows) return;
  const held_row<layout, TY> gradients(dy + row * Columns), values(y + row * Columns);
  C total = 0;
  layout::each([&](int slot, int at) {
    const auto g = gradients.run(slot, at);
    const auto v = values.run(slot, at);
#pragma unroll
    for (int i = 0; i < layout::width; ++i)
      total += Log ? static_cast<C>(g.at[i]) : static_cast<C>(g.at[i]) * static_cast<C>(v.at[i]);
  });
  const C sum = row_sum<layout::threads>(total);
  layout::each([&](int slot, int at) {
    const auto g = gradients.run(slot, at);
    const auto v = values.run(slot, at);
    put<layout::width, true>(dx + row * Columns + at, accumulate, layout::width, [&](int i) {
      const C d = static_cast<C>(g.at[i]), value = static_cast<C>(v.at[i]);
      if constexpr (Log) return d - math::exp(value) * sum;
      else return value * (d - sum);
    });
  });
}

}  // namespace cuda_kit

/// Keeps a row in registers, read and written once; rows of more than 32768 floats are read three times.
template <bool Log>
struct kernel<op::softmax<Log>, cuda> {
  template <class S, class TY, class T>
  static void forward(context<cuda>& ctx, shaped_matrix<S> of, TY* y, const T* x) {
    constexpr index_t columns = cuda_kit::row_columns<S>();
    using layout = cuda_kit::row_layout<columns, TY, T>;
    launch(ctx, &cuda_kit::softmax_kernel<Log, columns, TY, T>, layout::blocks(of.rows), layout::block, y, x, of.rows);
  }
  template <class S, class TDX, class T>
  static void backward(context<cuda>& ctx, shaped_matrix<S> of, TDX* dx, bool accumulate, const T* dy, const T* y) {
    constexpr index_t columns = cuda_kit::row_columns<S>();
    using layout = cuda_kit::row_layout<columns, TDX, T>;
    launch(ctx, &cuda_kit::softmax_gradient_kernel<Log, columns, TDX, T>, layout::blocks(of.rows), layout::block, dx,
           accumulate, dy, y, of.rows);
  }
};

}  // namespace gradus
