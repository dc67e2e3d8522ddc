#pragma once
// How kernels are started and how they read and write memory: 16 bytes a thread where shapes allow it.

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "../core/dtype.hpp"
#include "../core/extent.hpp"
#include "../core/shape_algebra.hpp"
#include "../memory/context.hpp"
#include "error.hpp"
#include "resource.hpp"
#include "stream.hpp"

namespace gradus::cuda_kit {

/// Threads a block of kernels whose threads do not work together.
inline constexpr unsigned block_threads = 256;

/// Blocks of `threads` that `work` items need, one thread an item.
constexpr unsigned blocks_for(index work, unsigned threads = block_threads) {
  return static_cast<unsigned>((work + threads - 1) / threads);
}

/// Starts a kernel on the context's stream; throws, naming the kernel, when it cannot start.
template <class... Parameters, class... Arguments>
void launch(context<cuda>& ctx, void (*kernel)(Parameters...), dim3 blocks, dim3 threads,
            const Arguments&... arguments) {
  kernel<<<blocks, threads, 0, ctx.stream().handle()>>>(arguments...);
  if (const cudaError_t status = cudaGetLastError(); status != cudaSuccess)
    fail_launch(status, reinterpret_cast<const void*>(kernel), blocks, threads);
}

/// Counts up to N elements: 32 bits where that is enough, because 64-bit index arithmetic is slow on a GPU.
template <index N>
using count_for = std::conditional_t<(N < (index{1} << 31)), std::uint32_t, std::uint64_t>;

/// N elements that are read or written at once.
template <class T, int N>
struct alignas(sizeof(T) * N) vector_of {
  T at[N];
};

/// Elements of the given types that a thread takes at once: as many as make 16 bytes of the largest type.
template <class... Ts>
inline constexpr int vector_width = [] {
  std::size_t largest = 1;
  ((largest = sizeof(Ts) > largest ? sizeof(Ts) : largest), ...);
  return static_cast<int>(16 / largest);
}();

/// N elements from an address aligned for them; only the first `count` when `Whole` is false.
template <int N, bool Whole, class T>
__device__ inline vector_of<T, N> load(const T* from, int count) {
  if constexpr (Whole) {
    return *reinterpret_cast<const vector_of<T, N>*>(from);
  } else {
    vector_of<T, N> v;
#pragma unroll
    for (int i = 0; i < N; ++i) v.at[i] = i < count ? from[i] : T{};
    return v;
  }
}
template <int N, bool Whole, class T>
__device__ inline void store(T* to, const vector_of<T, N>& v, int count) {
  if constexpr (Whole) {
    *reinterpret_cast<vector_of<T, N>*>(to) = v;
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i)
      if (i < count) to[i] = v.at[i];
  }
}

namespace detail {
template <class S, index FromBack>
inline constexpr index extent_from_back = gradus::detail::padded_extent<S>(FromBack);
}  // namespace detail

/// Where row `row` of an output of shape Out starts in an operand of shape In that is broadcast to it; every extent is a constant
/// to the compiler, so the divisions become multiplications.
template <class In, class Out, index Axis = 1, index Stride = columns_of<In>, class Count>
__device__ inline Count operand_row_offset(Count row) {
  if constexpr (Axis >= Out::rank) {
    return 0;
  } else {
    constexpr Count extent = detail::extent_from_back<Out, Axis>;
    constexpr index have = detail::extent_from_back<In, Axis>;
    const Count rest = operand_row_offset<In, Out, Axis + 1, Stride * have>(static_cast<Count>(row / extent));
    if constexpr (have != 1) return rest + (row % extent) * static_cast<Count>(Stride);
    else return rest;
  }
}

}  // namespace gradus::cuda_kit
