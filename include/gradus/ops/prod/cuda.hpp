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

}  // namespace cuda_kit

template <>
struct kernel<op::prod, cuda> {
  template <class TY, class T>
  static void forward(context<cuda>& ctx, matrix_extents of, TY* y, const T* x) {
    cuda_kit::for_row_threads(of.rows, of.columns, [&](auto threads, unsigned blocks, int block) {
      launch(ctx, &cuda_kit::prod_kernel<decltype(threads)::value, TY, T>, blocks, block, y, x, of.rows, of.columns);
    });
  }
};

}  // namespace gradus
