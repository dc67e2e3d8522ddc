#pragma once
// The CUDA kernel of slice, concat and split: moves a block.

#include <cstdint>

#include "../../gpu/runs.hpp"
#include "slice.hpp"

namespace gradus {

namespace cuda_kit {
template <class T, int Width>
__global__ void __launch_bounds__(block_threads)
    move_block_kernel(T* to, const T* from, block_move b, bool accumulate) {
  using C = compute_type<T>;
  const index_t thread = static_cast<index_t>(blockIdx.x) * block_threads + threadIdx.x;
  const index_t runs = b.run / Width;
  if (thread >= b.rows * runs) return;
  const index_t row = thread / runs, at = thread % runs * Width;
  const auto v = load<Width, true>(from + b.from_offset + row * b.from_stride + at, Width);
  T* const target = to + b.to_offset + row * b.to_stride + at;
  if (accumulate) put<Width, true>(target, true, Width, [&](int i) { return static_cast<C>(v.at[i]); });
  else store<Width, true>(target, v, Width);
}
}  // namespace cuda_kit

template <>
struct kernel<op::move_block, cuda> {
  template <class T>
  static void forward(context<cuda>& ctx, T* to, const T* from, block_move b, bool accumulate) {
    constexpr int width = cuda_kit::vector_width<T>;
    const bool whole = (b.run | b.to_offset | b.to_stride | b.from_offset | b.from_stride) % width == 0;
    const index_t threads = b.rows * b.run / (whole ? width : 1);
    launch(ctx, whole ? &cuda_kit::move_block_kernel<T, width> : &cuda_kit::move_block_kernel<T, 1>,
           cuda_kit::blocks_for(threads), cuda_kit::block_threads, to, from, b, accumulate);
  }
};

}  // namespace gradus
