#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "../memory/context.hpp"
#include "../memory/resource.hpp"
#include "stream.hpp"

namespace gradus {

/// The driver's stream-ordered allocator, with a pool of its own that keeps what it got: after the first steps an allocation asks
/// the operating system for nothing. Made for the GPU that is current; use it with streams of that GPU.
class device_resource final : public cuda_resource {
 public:
  device_resource() {
    const std::string reason = cuda_unavailable_reason();
    if (!reason.empty()) throw error("device_resource: " + reason);
    cudaMemPoolProps wanted{};
    wanted.allocType = cudaMemAllocationTypePinned;
    wanted.location.type = cudaMemLocationTypeDevice;
    cuda_kit::check(cudaGetDevice(&wanted.location.id), "cudaGetDevice");
    cuda_kit::check(cudaMemPoolCreate(&pool_, &wanted), "cudaMemPoolCreate");
    std::uint64_t keep = UINT64_MAX;  // the default, 0, gives everything back at each synchronisation
    const cudaError_t status = cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &keep);
    if (status != cudaSuccess) {
      static_cast<void>(cudaMemPoolDestroy(pool_));
      cuda_kit::fail(status, "cudaMemPoolSetAttribute");
    }
  }
  /// The pool goes once all frees submitted to it have run.
  ~device_resource() override { static_cast<void>(cudaMemPoolDestroy(pool_)); }

  /// Gives memory that is not in use back to the GPU.
  void trim() { cuda_kit::check(cudaMemPoolTrimTo(pool_, 0), "cudaMemPoolTrimTo"); }
  /// Most bytes that were in use at once.
  std::size_t peak_bytes() const {
    std::uint64_t bytes = 0;
    cuda_kit::check(cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrUsedMemHigh, &bytes), "cudaMemPoolGetAttribute");
    return static_cast<std::size_t>(bytes);
  }

 private:
  void* do_allocate(const memory_request& request, cuda_stream& on) override {
    void* memory = nullptr;
    cudaError_t status = cudaMallocFromPoolAsync(&memory, request.bytes, pool_, on.handle());
    if (status == cudaErrorMemoryAllocation) {  // unused blocks of other sizes may stand in the way
      static_cast<void>(cudaGetLastError());
      on.synchronize();
      trim();
      status = cudaMallocFromPoolAsync(&memory, request.bytes, pool_, on.handle());
    }
    if (status == cudaErrorMemoryAllocation) {
      static_cast<void>(cudaGetLastError());
      std::size_t free = 0;
      std::size_t total = 0;
      static_cast<void>(cudaMemGetInfo(&free, &total));
      throw out_of_memory("GPU memory: asked " + std::to_string(request.bytes) + " bytes with " + std::to_string(free) +
                          " free of " + std::to_string(total) + "; ask for less, such as a smaller batch");
    }
    cuda_kit::check(status, "cudaMallocFromPoolAsync");
    return memory;
  }
  void do_deallocate(void* memory, const memory_request&, cuda_stream& on) noexcept override {
    static_cast<void>(cudaFreeAsync(memory, on.handle()));
  }

  cudaMemPool_t pool_ = nullptr;
};

context(cuda_stream&, cuda_resource&) -> context<cuda>;

}  // namespace gradus
