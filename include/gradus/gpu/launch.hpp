#pragma once
// Launches kernels on a context's stream.

#include <cuda_runtime.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>

#include "../core/config.hpp"
#include "../core/extent.hpp"
#include "../memory/context.hpp"
#include "device.hpp"
#include "error.hpp"
#include "resource.hpp"
#include "stream.hpp"

namespace gradus {

namespace cuda_kit {

/// Threads per block of kernels whose threads do not cooperate.
inline constexpr unsigned block_threads = 256;

/// Shared memory that a block may have on every GPU from 8.0 on (GPUs of 8.6, 8.9 and 12.0 have no more).
inline constexpr std::size_t least_block_memory = std::size_t{99} << 10;

/// Blocks of `threads` threads for `work` items, one per thread.
constexpr unsigned blocks_for(index_t work, unsigned threads = block_threads) {
  return static_cast<unsigned>((work + threads - 1) / threads);
}

/// If the stream waits for kernels, waits for the one just submitted. Throws an error that names it if it failed.
inline void finish(context<cuda>& ctx, std::string_view kernel) {
  if (!ctx.stream().waits_for_kernels()) return;
  const cudaError_t status = cudaStreamSynchronize(ctx.stream().handle());
  if (status == cudaSuccess) return;
  const activity& in = ctx.current();
  fail_run(status, kernel,
           in.name.empty() ? "outside of operations"
                           : "in " + std::string(in.name) + " (" + std::string(phase_name(in.phase)) + ")");
}

/// Throws an error with the numbers if a block of the kernel, with `bytes` of dynamic shared memory, needs more shared
/// memory than the GPU has.
inline void check_block_memory(const cuda_stream& on, const void* kernel, std::size_t bytes) {
  cudaFuncAttributes of{};
  if (cudaFuncGetAttributes(&of, kernel) != cudaSuccess) static_cast<void>(cudaGetLastError());
  const std::size_t needed = bytes + of.sharedSizeBytes;
  if (needed <= on.block_memory()) return;
  static_cast<void>(cudaGetLastError());  // the next launch must not report it again
  throw error("launch of " + kernel_name(kernel) + ": a block needs " + std::to_string(needed) +
              " bytes of shared memory, and the " + name_of(on.device()) + " has " + std::to_string(on.block_memory()) +
              ": use smaller blocks, such as narrower heads, or a GPU with more");
}

/// Launches a kernel with the arguments at these addresses: launch_with_shared, once for all kernels.
GRADUS_NOINLINE inline void launch_any(context<cuda>& ctx, const void* kernel, dim3 blocks, dim3 threads,
                                       std::size_t bytes, void** arguments) {
  constexpr std::size_t unasked = std::size_t{48} << 10;  // more needs an attribute
  const device_guard guard(ctx.stream().device());
  const std::string name = ctx.stream().waits_for_kernels() ? kernel_name(kernel) : std::string();
  cudaError_t status = cudaSuccess;
  if (bytes > unasked)
    status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
  if (status == cudaSuccess) {
    cudaLaunchConfig_t how{};
    how.gridDim = blocks;
    how.blockDim = threads;
    how.dynamicSmemBytes = bytes;
    how.stream = ctx.stream().handle();
    status = cudaLaunchKernelExC(&how, kernel, arguments);  // <<<>>> reports errors only through cudaGetLastError
  }
  if (status != cudaSuccess) {
    check_block_memory(ctx.stream(), kernel, bytes);
    fail_launch(status, kernel, blocks, threads);
  }
  finish(ctx, name);
}

}  // namespace cuda_kit

/// Launches a kernel on the context's stream with `bytes` of dynamic shared memory. Throws an error that names the
/// kernel if the launch fails. Leaves an earlier error of the program in cudaGetLastError.
template <class... Parameters>
void launch_with_shared(context<cuda>& ctx, void (*kernel)(Parameters...), dim3 blocks, dim3 threads, std::size_t bytes,
                        std::type_identity_t<Parameters>... arguments) {
  void* addresses[sizeof...(Parameters) + 1] = {&arguments...};
  cuda_kit::launch_any(ctx, reinterpret_cast<const void*>(kernel), blocks, threads, bytes, addresses);
}
/// Launches a kernel on the context's stream, without dynamic shared memory. Throws an error that names the kernel if
/// the launch fails.
template <class... Parameters>
void launch(context<cuda>& ctx, void (*kernel)(Parameters...), dim3 blocks, dim3 threads,
            std::type_identity_t<Parameters>... arguments) {
  launch_with_shared(ctx, kernel, blocks, threads, 0, arguments...);
}

}  // namespace gradus
