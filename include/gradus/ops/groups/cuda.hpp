#pragma once
// The CUDA kernels of bincount and sort_by_group.

#include <cstdint>

#include "../../gpu/access.hpp"
#include "../../gpu/runs.hpp"
#include "../cumsum/cuda.hpp"
#include "../elementwise/cuda.hpp"
#include "../gather/cuda.hpp"
#include "../slice/cuda.hpp"
#include "groups.hpp"

namespace gradus {

namespace cuda_kit {

/// Sums of integers have the same bits in any order.
template <class I>
__global__ void __launch_bounds__(block_threads)
    count_entries_kernel(std::int32_t* counts, const I* x, index_t size, index_t bins) {
  const index_t i = static_cast<index_t>(blockIdx.x) * block_threads + threadIdx.x;
  if (i >= size) return;
  const auto bin = static_cast<long long>(x[i]);
  if (bin >= 0 && bin < static_cast<long long>(bins)) atomicAdd(counts + bin, 1);
}

/// Block g places the entries of group g, which it finds in their order; block `number` places those out of range.
template <class I, class Offset>
__global__ void __launch_bounds__(block_threads)
    place_by_group_kernel(std::int32_t* places, const I* groups, index_t size, const std::int32_t* counts,
                          const Offset* offsets, index_t number) {
  constexpr unsigned warps = block_threads / 32;
  __shared__ std::int32_t found[warps];  // entries of the group in each warp
  const index_t own = blockIdx.x;
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const auto first = static_cast<std::int32_t>(offsets[own]);
  const std::int32_t kept = own < number ? static_cast<std::int32_t>(offsets[own + 1]) - first : 0;
  std::int32_t dropped = static_cast<std::int32_t>(offsets[number]) - first;  // where this group's dropped ones begin
  for (index_t g = 0; g < own; ++g) dropped += counts[g];
  std::int32_t before = 0;
  for (index_t begin = 0; begin < size; begin += block_threads) {
    const index_t i = begin + threadIdx.x;
    bool is_own = false;
    if (i < size) {
      const auto g = static_cast<long long>(groups[i]);
      is_own = (g < 0 || g >= static_cast<long long>(number) ? number : static_cast<index_t>(g)) == own;
    }
    const unsigned of_warp = __ballot_sync(0xFFFFFFFFu, is_own);
    if (lane == 0) found[warp] = __popc(of_warp);
    __syncthreads();
    std::int32_t rank = before + __popc(of_warp & ((1u << lane) - 1));
    for (unsigned w = 0; w < warps; ++w) {
      if (w < warp) rank += found[w];
      before += found[w];
    }
    if (is_own) places[i] = rank < kept ? first + rank : dropped + (rank - kept);
    __syncthreads();
  }
}

}  // namespace cuda_kit

template <index_t Bins>
struct kernel<op::bincount<Bins>, cuda> {
  template <class I>
  static void forward(context<cuda>& ctx, std::int32_t* counts, const I* x, index_t size) {
    device_access<cuda>::zero(ctx, counts, Bins * sizeof(std::int32_t));
    launch(ctx, &cuda_kit::count_entries_kernel<I>, cuda_kit::blocks_for(size), cuda_kit::block_threads, counts, x,
           size, Bins);
  }
};

template <>
struct kernel<op::group_places, cuda> {
  template <class I, class Offset>
  static void forward(context<cuda>& ctx, std::int32_t* places, const I* groups, index_t size,
                      const std::int32_t* counts, const Offset* offsets, index_t number) {
    launch(ctx, &cuda_kit::place_by_group_kernel<I, Offset>, static_cast<unsigned>(number + 1), cuda_kit::block_threads,
           places, groups, size, counts, offsets, number);
  }
};

}  // namespace gradus
