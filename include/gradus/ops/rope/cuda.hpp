#pragma once
// The CUDA kernel of rope.

#include <cmath>
#include <cstdint>
#include <string>

#include "../../core/error.hpp"
#include "../../gpu/runs.hpp"
#include "rope.hpp"

namespace gradus {

namespace cuda_kit {

/// The angles per position of a head's pairs, as an argument of a kernel.
struct rope_frequencies {
  static constexpr index_t most = 256;
  double of[most];
  double amplitude;
};

/// One thread per row of a sequence and pair; it rotates the pair in all heads. `positions`, of rows, may be null, and
/// `y` may be `x`.
template <class T>
__global__ void __launch_bounds__(block_threads)
    rope_kernel(const __grid_constant__ rope_frequencies frequency, index_t position, bool in_halves, bool back,
                index_t rows, index_t time, index_t heads, index_t half, const std::int32_t* positions, T* y,
                const T* x) {
  using C = compute_type<T>;
  const index_t n = static_cast<index_t>(blockIdx.x) * block_threads + threadIdx.x;
  if (n >= rows * half) return;
  const index_t row = n / half, pair = n % half;
  const double steps = positions == nullptr ? static_cast<double>(row % time) : positions[row];
  double angle = (static_cast<double>(position) + steps) * frequency.of[pair];
  angle -= 6.283185307179586476925 * rint(angle / 6.283185307179586476925);  // C may be float
  C s, c;
  if constexpr (sizeof(C) == 4) sincosf(static_cast<float>(angle), &s, &c);
  else sincos(angle, &s, &c);
  if (back) s = -s;
  s *= static_cast<C>(frequency.amplitude);
  c *= static_cast<C>(frequency.amplitude);
  const index_t first = in_halves ? pair : 2 * pair, apart = in_halves ? half : 1;
  for (index_t h = 0; h < heads; ++h) {
    const index_t at = (row * heads + h) * 2 * half + first;
    const C a = static_cast<C>(x[at]), b = static_cast<C>(x[at + apart]);
    y[at] = convert_element<T>(a * c - b * s);
    y[at + apart] = convert_element<T>(b * c + a * s);
  }
}

}  // namespace cuda_kit

template <>
struct kernel<op::rope<0>, cuda> {
  template <class T>
  static void forward(context<cuda>& ctx, const rope_options& options, bool back, const detail::rope_sizes& sizes,
                      const std::int32_t* positions, T* y, const T* x) {
    const index_t half = sizes.depth / 2, rows = sizes.batch * sizes.time;
    if (half > cuda_kit::rope_frequencies::most)
      throw error("rope<Heads>(x): a head has " + std::to_string(sizes.depth) + " elements; the GPU supports 512");
    cuda_kit::rope_frequencies frequency;
    frequency.amplitude = options.scaling.amplitude;
    for (index_t i = 0; i < half; ++i) frequency.of[i] = detail::rope_frequency(options, i, sizes.depth);
    launch(ctx, &cuda_kit::rope_kernel<T>, cuda_kit::blocks_for(rows * half), cuda_kit::block_threads, frequency,
           options.position, options.layout == rope_layout::halves, back, rows, sizes.time, sizes.heads, half,
           positions, y, x);
  }
};

}  // namespace gradus
