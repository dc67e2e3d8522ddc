#pragma once
// The one header that includes CUB: sums and maxima over the threads of a block, in a fixed order, hence the same bits every run.
#include <cub/block/block_reduce.cuh>

namespace gradus::cuda_kit {

struct larger_of {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a > b ? a : b;
  }
};

/// The sum of `x` over the Threads threads of a block, given to every thread. All threads must call it.
template <int Threads, class T>
__device__ inline T block_sum(T x) {
  using reduce = cub::BlockReduce<T, Threads>;
  __shared__ typename reduce::TempStorage scratch;
  __shared__ T result;
  const T total = reduce(scratch).Sum(x);
  if (threadIdx.x == 0) result = total;
  __syncthreads();
  const T shared = result;
  __syncthreads();  // before the scratch memory is used again
  return shared;
}

/// The largest `x` over the Threads threads of a block, given to every thread. All threads must call it.
template <int Threads, class T>
__device__ inline T block_max(T x) {
  using reduce = cub::BlockReduce<T, Threads>;
  __shared__ typename reduce::TempStorage scratch;
  __shared__ T result;
  const T best = reduce(scratch).Reduce(x, larger_of{});
  if (threadIdx.x == 0) result = best;
  __syncthreads();
  const T shared = result;
  __syncthreads();
  return shared;
}

}  // namespace gradus::cuda_kit
