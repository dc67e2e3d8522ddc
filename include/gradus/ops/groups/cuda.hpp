#pragma once
// The CUDA kernels of bincount and sort_by_group.

#include <cstdint>

#include "../../gpu/access.hpp"
#include "../cumsum/cuda.hpp"
#include "../elementwise/cuda.hpp"
#include "../gather/cuda.hpp"
#include "../gather/cuda_segments.hpp"
#include "../slice/cuda.hpp"
#include "groups.hpp"

namespace gradus {

namespace cuda_kit {

/// Sums of integers have the same bits in any order.
template <class Id>
__global__ void __launch_bounds__(block_threads)
    count_entries_kernel(std::int32_t* counts, const Id* x, index_t size, index_t bins) {
  const index_t i = static_cast<index_t>(blockIdx.x) * block_threads + threadIdx.x;
  if (i >= size) return;
  const auto bin = static_cast<long long>(x[i]);
  if (bin >= 0 && bin < static_cast<long long>(bins)) atomicAdd(counts + bin, 1);
}

/// Places entries that are sorted by group, those out of range last: number i of them is entry entries[i].
template <class Offset>
__global__ void __launch_bounds__(block_threads)
    place_by_group_kernel(std::int32_t* places, const std::uint32_t* groups, const std::uint32_t* entries, index_t size,
                          const Offset* offsets, index_t number) {
  const index_t i = static_cast<index_t>(blockIdx.x) * block_threads + threadIdx.x;
  if (i >= size) return;
  const std::uint32_t own = groups[i];
  index_t first = 0;  // the first of the group, which is at most i
  for (index_t end = i; first < end;) {
    const index_t middle = (first + end) / 2;
    if (groups[middle] < own) first = middle + 1;
    else end = middle;
  }
  const auto offset = [&](index_t g) { return static_cast<std::int32_t>(offsets[g < number ? g : number]); };
  const auto at = static_cast<std::int32_t>(i);
  const std::int32_t place = offset(own) + at - static_cast<std::int32_t>(first), end = offset(own + index_t{1});
  places[entries[i]] = place < end ? place : at + offset(number) - end;
}

}  // namespace cuda_kit

template <index_t Bins>
struct kernel<op::bincount<Bins>, cuda> {
  template <class Id>
  static void forward(context<cuda>& ctx, std::int32_t* counts, const Id* x, index_t size) {
    device_access<cuda>::zero(ctx, counts, Bins * sizeof(std::int32_t));
    launch(ctx, &cuda_kit::count_entries_kernel<Id>, cuda_kit::blocks_for(size), cuda_kit::block_threads, counts, x,
           size, Bins);
  }
};

template <>
struct kernel<op::group_places, cuda> {
  template <class Id, class Offset>
  static void forward(context<cuda>& ctx, std::int32_t* places, const Id* groups, index_t size, const std::int32_t*,
                      const Offset* offsets, index_t number) {
    using namespace cuda_kit;
    const auto count = static_cast<std::uint32_t>(size);
    const sorted_indices sorted =
        sort_indices(ctx, groups, count, size, 1, number, false, static_cast<std::uint32_t>(number));
    launch(ctx, &place_by_group_kernel<Offset>, blocks_for(size), block_threads, places, sorted.keys, sorted.positions,
           size, offsets, number);
  }
};

}  // namespace gradus
