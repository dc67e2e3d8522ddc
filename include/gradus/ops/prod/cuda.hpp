#pragma once
// The CUDA kernels of prod: a row per warp, or per block if it is long.

#include <type_traits>

#include "../../core/math.hpp"
#include "../../gpu/rows.hpp"
#include "../../precision/promotion.hpp"
#include "prod.hpp"

namespace gradus {

namespace cuda_kit {

template <class C>
__device__ inline C multiply_two(C a, C b) {
  if constexpr (std::is_integral_v<C>) return math::wrapping_multiply(a, b);
  else return a * b;
}

template <int Threads, class TY, class T>
__global__ void __launch_bounds__(long_row_threads) prod_kernel(TY* y, const T* x, index_t rows, index_t columns) {
  using C = std::conditional_t<is_floating<T>, compute_type<promote<TY, T>>, TY>;
  const index_t row = static_cast<index_t>(blockIdx.x) * rows_in_block(Threads) + threadIdx.x / Threads;
  if (row >= rows) return;
  C all = 1;
  for (index_t i = threadIdx.x % Threads; i < columns; i += Threads)
    all = multiply_two(all, static_cast<C>(x[row * columns + i]));
  all = row_reduce<Threads>(all, [](C a, C b) { return multiply_two(a, b); });
  if (threadIdx.x % Threads == 0) y[row] = static_cast<TY>(all);
}

template <int Threads, class TDX, class TDY, class T>
__global__ void __launch_bounds__(long_row_threads)
    prod_gradient_kernel(TDX* dx, bool accumulate, const TDY* dy, const T* x, index_t rows, index_t columns) {
  using C = compute_type<promote<TDX, TDY, T>>;
  const index_t row = static_cast<index_t>(blockIdx.x) * rows_in_block(Threads) + threadIdx.x / Threads;
  if (row >= rows) return;
  C others = 1;  // the product of the elements that are not 0
  int zeros = 0;
  for (index_t i = threadIdx.x % Threads; i < columns; i += Threads) {
    const C v = static_cast<C>(x[row * columns + i]);
    if (v == C(0)) ++zeros;
    else others *= v;
  }
  others = row_reduce<Threads>(others, [](C a, C b) { return a * b; });
  zeros = row_sum<Threads>(zeros);
  const C grad = static_cast<C>(dy[row]) * others;
  for (index_t i = threadIdx.x % Threads; i < columns; i += Threads) {
    const C v = static_cast<C>(x[row * columns + i]);
    const C g = v == C(0) ? (zeros == 1 ? grad : C(0)) : zeros == 0 ? grad / v : C(0);
    put<1, true>(dx + row * columns + i, accumulate, 1, [&](int) { return g; });
  }
}

}  // namespace cuda_kit

template <>
struct kernel<op::prod, cuda> {
  template <class TY, class SY, class T, class S>
  static void forward(context<cuda>& ctx, view<TY, SY, cuda> y, view<const T, S, cuda> x) {
    const index_t rows = rows_in(x.extents()), columns = columns_in(x.extents());
    cuda_kit::for_row_threads(rows, columns, [&](auto threads, unsigned blocks, int block) {
      launch(ctx, &cuda_kit::prod_kernel<decltype(threads)::value, TY, T>, blocks, block, y.data(), x.data(), rows,
             columns);
    });
  }
  template <class TDX, class S, class TDY, class SY, class T>
  static void backward(context<cuda>& ctx, view<TDX, S, cuda> dx, bool accumulate, view<const TDY, SY, cuda> dy,
                       view<const T, S, cuda> x) {
    const index_t rows = rows_in(x.extents()), columns = columns_in(x.extents());
    cuda_kit::for_row_threads(rows, columns, [&](auto threads, unsigned blocks, int block) {
      launch(ctx, &cuda_kit::prod_gradient_kernel<decltype(threads)::value, TDX, TDY, T>, blocks, block, dx.data(),
             accumulate, dy.data(), x.data(), rows, columns);
    });
  }
};

}  // namespace gradus
