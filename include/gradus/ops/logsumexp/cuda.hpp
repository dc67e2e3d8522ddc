#pragma once
// The CUDA kernels of logsumexp.

#include "../../core/math.hpp"
#include "../../gpu/rows.hpp"
#include "../../precision/promotion.hpp"
#include "logsumexp.hpp"

namespace gradus {

namespace cuda_kit {

template <index_t Columns, class TY, class TK, class T>
__global__ void __launch_bounds__(row_layout<Columns, T, T>::block)
    logsumexp_kernel(TY* y, TK* kept, const T* x, index_t rows) {
  using C = compute_type<promote<TY, T>>;
  using layout = row_layout<Columns, T, T>;
  const index_t row = layout::first_row();
  if (row >= rows) return;  // for all threads of a warp, or for none
  const held_row<layout, T> values(x + row * Columns);
  const C largest = values.template largest<C>();
  const bool infinite = isinf(largest) && largest > C(0);
  const C top = isinf(largest) && !infinite ? C(0) : largest;
  const C sum = values.exp_sum(top);
  if (threadIdx.x % layout::threads != 0) return;
  y[row] = static_cast<TY>(infinite ? largest : top + math::log(sum));
  if (!kept) return;
  kept[2 * row] = static_cast<TK>(top);
  kept[2 * row + 1] = static_cast<TK>(infinite ? C(1) : sum == 0 ? C(0) : 1 / sum);
}

template <index_t Columns, class TDX, class TDY, class T, class TK>
__global__ void __launch_bounds__(row_layout<Columns, TDX, T>::block)
    logsumexp_gradient_kernel(TDX* dx, bool accumulate, const TDY* dy, const T* x, const TK* kept, index_t rows) {
  using C = compute_type<promote<promote<TDY, T>, promote<TK, TDX>>>;
  using layout = row_layout<Columns, TDX, T>;
  const index_t row = layout::first_row();
  if (row >= rows) return;
  const held_row<layout, T> values(x + row * Columns);
  const C top = static_cast<C>(kept[2 * row]), grad = static_cast<C>(kept[2 * row + 1]) * static_cast<C>(dy[row]);
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
  template <class S, class TY, class TK, class T>
  static void forward(context<cuda>& ctx, shaped_matrix<S> of, TY* y, TK* kept, const T* x) {
    constexpr index_t columns = cuda_kit::row_columns<S>();
    using layout = cuda_kit::row_layout<columns, T, T>;
    launch(ctx, &cuda_kit::logsumexp_kernel<columns, TY, TK, T>, layout::blocks(of.rows), layout::block, y, kept, x,
           of.rows);
  }
  template <class S, class TDX, class TDY, class T, class TK>
  static void backward(context<cuda>& ctx, shaped_matrix<S> of, TDX* dx, bool accumulate, const TDY* dy, const T* x,
                       const TK* kept) {
    constexpr index_t columns = cuda_kit::row_columns<S>();
    using layout = cuda_kit::row_layout<columns, TDX, T>;
    launch(ctx, &cuda_kit::logsumexp_gradient_kernel<columns, TDX, TDY, T, TK>, layout::blocks(of.rows), layout::block,
           dx, accumulate, dy, x, kept, of.rows);
  }
};

}  // namespace gradus
