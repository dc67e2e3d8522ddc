#pragma once
// The CUDA kernel of tril and triu.

#include <cstddef>
#include <cstdint>

#include "../../gpu/runs.hpp"
#include "triangle.hpp"

namespace gradus {

namespace cuda_kit {

template <class T>
__global__ void __launch_bounds__(block_threads)
    triangle_kernel(T* y, const T* x, index_t size, divisor<std::uint64_t> columns, divisor<std::uint64_t> rows,
                    std::ptrdiff_t diagonal, bool upper, bool accumulate) {
  using C = compute_type<T>;
  constexpr int width = vector_width<T>;
  flat_run<width>(size, [&](auto whole, index_t at, int n) {
    const auto v = load<width, whole.value>(x + at, n);
    put<width, whole.value>(y + at, accumulate, n, [&](int i) {
      std::uint64_t rest = at + static_cast<index_t>(i);
      const auto column = static_cast<std::ptrdiff_t>(columns.divide(rest));
      const std::ptrdiff_t on = static_cast<std::ptrdiff_t>(rows.divide(rest)) + diagonal;
      return (upper ? column >= on : column <= on) ? static_cast<C>(v.at[i]) : C(0);
    });
  });
}

}  // namespace cuda_kit

template <bool Upper>
struct kernel<op::triangle<Upper>, cuda> {
  template <class T>
  static void forward(context<cuda>& ctx, T* y, const T* x, triangle_layout by, bool accumulate) {
    using divisor = cuda_kit::divisor<std::uint64_t>;
    const index_t size = by.matrices * by.rows * by.columns;
    launch(ctx, &cuda_kit::triangle_kernel<T>, cuda_kit::flat_blocks(size, cuda_kit::vector_width<T>),
           cuda_kit::block_threads, y, x, size, divisor(by.columns), divisor(by.rows), by.diagonal, Upper, accumulate);
  }
};

}  // namespace gradus
