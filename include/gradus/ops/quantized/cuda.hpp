#pragma once
// The CUDA kernels of weights in 8 bits.

#include <cfloat>
#include <cstdint>

#include "../../gpu/runs.hpp"
#include "../matmul/cuda.hpp"
#include "quantized.hpp"

namespace gradus {

namespace cuda_kit {

/// A block of elements per warp, two adjacent ones per thread.
template <class T>
__global__ void __launch_bounds__(block_threads)
    quantize_kernel(std::uint8_t* codes, float* scales, const T* from, index_t blocks) {
  static_assert(quantized_block == 64);
  const index_t block = static_cast<index_t>(blockIdx.x) * (block_threads / 32) + threadIdx.x / 32;
  if (block >= blocks) return;
  const index_t at = block * quantized_block + threadIdx.x % 32 * 2;
  const float x = static_cast<float>(from[at]);
  const float y = static_cast<float>(from[at + 1]);
  float top = fmaxf(fabsf(x), fabsf(y));
  float none = (x - x) + (y - y);  // NaN if an element is not finite
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) {
    top = fmaxf(top, __shfl_xor_sync(0xFFFFFFFFu, top, lanes));
    none += __shfl_xor_sync(0xFFFFFFFFu, none, lanes);
  }
  const float scale = top / 127 + none;
  const float inverse = scale >= FLT_MIN ? 1 / scale : 0;
  const auto code = [&](float v) { return static_cast<std::uint8_t>(inverse > 0 ? __float2int_rn(v * inverse) : 0); };
  codes[at] = code(x);
  codes[at + 1] = code(y);
  if (threadIdx.x % 32 == 0) scales[block] = scale;
}

template <class T>
__global__ void __launch_bounds__(block_threads)
    dequantize_kernel(T* to, const std::uint8_t* codes, const float* scales, index_t size) {
  constexpr int width = vector_width<T>;
  flat_run<width>(size, [&](auto, index_t at, int) {
    using C = compute_type<T>;
    const auto run = load<width, true>(codes + at, width);
    const C scale = static_cast<C>(scales[at / quantized_block]);
    put<width, true>(to + at, false, width,
                     [&](int i) { return static_cast<C>(static_cast<std::int8_t>(run.at[i])) * scale; });
  });
}

}  // namespace cuda_kit

template <>
struct kernel<op::quantize, cuda> {
  template <class T>
  static void forward(context<cuda>& ctx, std::uint8_t* codes, float* scales, const T* from, index_t size) {
    using namespace cuda_kit;
    const index_t blocks = size / quantized_block;
    launch(ctx, &quantize_kernel<T>, blocks_for(blocks * 32), block_threads, codes, scales, from, blocks);
  }
};

template <>
struct kernel<op::dequantize, cuda> {
  template <class T>
  static void forward(context<cuda>& ctx, T* to, const std::uint8_t* codes, const float* scales, index_t size) {
    using namespace cuda_kit;
    launch(ctx, &dequantize_kernel<T>, flat_blocks(size, vector_width<T>), block_threads, to, codes, scales, size);
  }
};

}  // namespace gradus
