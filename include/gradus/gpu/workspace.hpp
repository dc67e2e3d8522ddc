#pragma once
// Scratch memory of a context's kernels.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>

#include "../memory/context.hpp"
#include "device.hpp"
#include "error.hpp"
#include "resource.hpp"
#include "stream.hpp"

namespace gradus {

namespace cuda_kit {

/// Scratch memory shared by all kernels of a context, which run one after another on its stream and expect no content.
/// Allocated by the library, not from the context's resource, whose requests may be planned. Grows when a kernel needs
/// more, normally in the first step.
/// @tparam Least initial bytes
template <std::size_t Least>
class basic_workspace {
 public:
  static constexpr std::size_t least = Least;

  explicit basic_workspace(context<cuda>&) {}
  basic_workspace(const basic_workspace&) = delete;
  basic_workspace& operator=(const basic_workspace&) = delete;
  ~basic_workspace() { static_cast<void>(cudaFree(memory_)); }

  /// At least `bytes`, aligned to 256 bytes. Throws out_of_memory.
  void* reserve(context<cuda>& ctx, std::size_t bytes) {
    if (bytes <= bytes_) return memory_;
    const std::size_t wanted = bytes < least ? least : bytes;
    const memory_request request{.bytes = wanted, .what = category::temporary, .source = "workspace"};
    refuse_in_capture(ctx.stream(), "GPU memory", request);
    const device_guard guard(ctx.stream().device());
    ctx.stream().synchronize();
    ctx.stream().note_move();
    static_cast<void>(cudaFree(memory_));
    memory_ = nullptr;
    bytes_ = 0;
    const cudaError_t status = cudaMalloc(&memory_, wanted);
    if (status == cudaErrorMemoryAllocation) {
      static_cast<void>(cudaGetLastError());
      std::size_t free = 0;
      std::size_t total = 0;
      static_cast<void>(cudaMemGetInfo(&free, &total));
      throw shortage("GPU memory", request, {.live = total - free, .limit = total, .fits = free});
    }
    check(status, "cudaMalloc (workspace)");
    bytes_ = wanted;
    return memory_;
  }

 private:
  void* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

using workspace = basic_workspace<(std::size_t{32} << 20)>;  ///< the size that cuBLASLt's fastest kernels need
/// Memory for operands of a product that uses the workspace.
using operand_workspace = basic_workspace<(std::size_t{64} << 10)>;

}  // namespace cuda_kit

/// Scratch memory for `count` elements of T, not initialised. The kernels of a context share it: launch those that use
/// it before the next operation or the next call of scratch. Aligned to 256 bytes. Throws out_of_memory.
template <class T>
T* scratch(context<cuda>& ctx, std::size_t count) {
  return static_cast<T*>(ctx.get<cuda_kit::workspace>().reserve(ctx, count * sizeof(T)));
}

}  // namespace gradus
