#pragma once
// The CUDA kernels of convolutions with groups of channels: directly, without patches.

#include <cstdint>

#include "../../core/dtype.hpp"
#include "../../gpu/rows.hpp"
#include "../../gpu/runs.hpp"
#include "cuda_windows.hpp"

namespace gradus::cuda_kit {

/// to (+)= the convolution of `from`, or, Back, its gradient for images, plus a bias per channel of `to`.
template <int Kernel, int Width, bool Back, class TY, class TX, class TB>
__global__ void __launch_bounds__(block_threads)
    conv_direct_kernel(TY* to, bool accumulate, const TX* from, const TX* w, const TB* bias, conv_layout s,
                       conv_grid<Width> grid) {
  using C = compute_type<TX>;
  constexpr bool unit = Width > 1;
  constexpr std::uint32_t span = conv_span<Kernel>;
  const conv_side &results = Back ? s.images : s.results, &terms = Back ? s.results : s.images;
  const std::uint32_t height = Kernel > 0 ? Kernel : s.y.kernel, width = Kernel > 0 ? Kernel : s.x.kernel;
  const std::uint32_t taps = height * width;
  grid.each([&](std::uint32_t, std::uint32_t image, std::uint32_t at_y, std::uint32_t at_x) {
    for (std::uint32_t channel = blockIdx.y; channel < results.channels; channel += gridDim.y) {
      std::uint32_t group = channel;
      const std::uint32_t in_group = results.group.divide(group), first = group * terms.group.value;
      C sums[Width];
#pragma unroll
      for (C& sum : sums) sum = bias != nullptr ? static_cast<C>(bias[channel]) : C(0);
      const TX* plane = from + terms.at(image, first);
      const TX* factors =
          w + static_cast<index_t>(Back ? first * results.group.value + in_group : channel * terms.group.value) * taps;
      for (std::uint32_t term = 0; term < terms.group.value; ++term) {
#pragma unroll
        for (std::uint32_t ty = 0; ty < height; ++ty) {
          const std::uint32_t from_y = s.y.other<Back, unit>(at_y, ty);
          if (from_y >= terms.height) continue;
          for (std::uint32_t tx = 0; tx < width; tx += span) {
            C v[Width + span - 1];
            conv_read<unit>(v, plane + from_y * terms.width, terms.width, [&](std::uint32_t i) {
              return s.x.other<Back, unit>(at_x, tx + (Back ? span - 1 - i : i));
            });
#pragma unroll
            for (std::uint32_t t = 0; t < span; ++t) {
              const C factor = static_cast<C>(factors[ty * width + tx + t]);
#pragma unroll
              for (int i = 0; i < Width; ++i) sums[i] += v[i + (Back ? span - 1 - t : t)] * factor;
            }
          }
        }
        plane += terms.plane();
        factors += Back ? results.group.value * taps : taps;
      }
      const std::uint32_t left = results.width - at_x;
      TY* const at = to + results.at(image, channel) + at_y * results.width + at_x;
      const auto sum = [&](int i) { return sums[i]; };
      if (results.width % Width == 0) put<Width, true>(at, accumulate, Width, sum);
      else put<Width, false>(at, accumulate, static_cast<int>(left), sum);
    }
  });
}
/// Sums for the gradient of the filters, parts [gridDim.y, filters]: a block for the taps of a filter's channel, or for
/// one of them if Kernel is 0, and for some of the positions.
template <int Kernel, int Width, class C, class TY, class TX>
__global__ void __launch_bounds__(block_threads)
    conv_direct_weights_kernel(C* parts, const TY* y, const TX* x, conv_layout s, conv_grid<Width> grid) {
  constexpr bool unit = Width > 1;
  constexpr std::uint32_t span = conv_span<Kernel>;
  const std::uint32_t first_x = Kernel > 0 ? 0 : blockIdx.x % s.x.kernel;
  const std::uint32_t first_y = Kernel > 0 ? 0 : blockIdx.x / s.x.kernel % s.y.kernel;
  std::uint32_t filter = Kernel > 0 ? blockIdx.x : blockIdx.x / s.x.kernel / s.y.kernel;
  const std::uint32_t in_group = s.images.group.divide(filter), group = s.results.group.quotient(filter);
  const std::uint32_t channel = group * s.images.group.value + in_group;
  C sums[span * span] = {};
  for (std::uint32_t column = blockIdx.y * block_threads + threadIdx.x; column < grid.columns;
       column += gridDim.y * block_threads)
    grid.at(column, [&](std::uint32_t image, std::uint32_t at_y, std::uint32_t at_x) {
      C d[Width];
      conv_read<true>(d, y + s.results.at(image, filter) + at_y * s.results.width, s.results.width,
                      [&](std::uint32_t i) { return at_x + i; });
      const TX* const plane = x + s.images.at(image, channel);
#pragma unroll
      for (std::uint32_t ty = 0; ty < span; ++ty) {
        const std::uint32_t from_y = s.y.other<false, unit>(at_y, first_y + ty);
        if (from_y >= s.images.height) continue;
        C v[Width + span - 1];
        conv_read<unit>(v, plane + from_y * s.images.width, s.images.width,
                        [&](std::uint32_t i) { return s.x.other<false, unit>(at_x, first_x + i); });
#pragma unroll
        for (std::uint32_t tx = 0; tx < span; ++tx)
#pragma unroll
          for (int i = 0; i < Width; ++i) sums[ty * span + tx] += v[i + tx] * d[i];
      }
    });
  __shared__ C of_warp[block_threads / 32][span * span];
#pragma unroll
  for (std::uint32_t tap = 0; tap < span * span; ++tap) {
    const C sum = row_sum<32>(sums[tap]);
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32][tap] = sum;
  }
  __syncthreads();
  if (threadIdx.x >= span * span) return;
  C sum = 0;
  for (const auto& taps : of_warp) sum += taps[threadIdx.x];
  parts[(static_cast<index_t>(blockIdx.y) * gridDim.x + blockIdx.x) * (span * span) + threadIdx.x] = sum;
}
/// w (+)= the sum over parts [count, weights], in their order.
template <class TW, class C>
__global__ void __launch_bounds__(block_threads)
    conv_parts_kernel(TW* w, bool accumulate, const C* parts, index_t count, index_t weights) {
  const index_t weight = static_cast<index_t>(blockIdx.x) * block_threads + threadIdx.x;
  if (weight >= weights) return;
  C sum = 0;
  for (index_t part = 0; part < count; ++part) sum += parts[part * weights + weight];
  put<1, true>(w + weight, accumulate, 1, [&](int) { return sum; });
}

}  // namespace gradus::cuda_kit
