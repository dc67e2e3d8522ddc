#pragma once
// How kernels are started.

#include <cuda_runtime.h>

#include <cstddef>

#include "../core/extent.hpp"
#include "../memory/context.hpp"
#include "error.hpp"
#include "resource.hpp"
#include "stream.hpp"

namespace gradus::cuda_kit {

/// Threads a block of kernels whose threads do not work together.
inline constexpr unsigned block_threads = 256;

/// Blocks of `threads` that `work` items need, one thread an item.
constexpr unsigned blocks_for(index_t work, unsigned threads = block_threads) {
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

/// The same for a kernel whose blocks take `bytes` of shared memory beside what the kernel declares.
template <class... Parameters, class... Arguments>
void launch_with_shared(context<cuda>& ctx, void (*kernel)(Parameters...), dim3 blocks, dim3 threads, std::size_t bytes,
                        const Arguments&... arguments) {
  constexpr std::size_t unasked = std::size_t{48} << 10;  // more must be asked for
  cudaError_t status = cudaSuccess;
  if (bytes > unasked)
    status = cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  static_cast<int>(bytes));
  if (status == cudaSuccess) {
    kernel<<<blocks, threads, bytes, ctx.stream().handle()>>>(arguments...);
    status = cudaGetLastError();
  }
  if (status != cudaSuccess) fail_launch(status, reinterpret_cast<const void*>(kernel), blocks, threads);
}

}  // namespace gradus::cuda_kit
