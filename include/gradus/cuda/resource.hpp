#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "../memory/context.hpp"
#include "../memory/diagnostics.hpp"
#include "../memory/resource.hpp"
#include "device.hpp"
#include "stream.hpp"

namespace gradus {

/// The driver's stream-ordered allocator, with a pool of its own that keeps what it got: after the first steps an
/// allocation asks the operating system for nothing. Of one GPU; use it with streams of that GPU.
class device_resource final : public cuda_resource {
 public:
  /// Of the GPU that is current in the calling thread. Throws error when there is no GPU.
  device_resource() : device_resource(cuda_device::current()) {}
  /// Of this GPU. Throws error where it is not there.
  explicit device_resource(cuda_device of) : device_(of) {
    cuda_kit::check_available(of, "device_resource");
    const cuda_kit::device_guard guard(device_);
    cudaMemPoolProps wanted{};
    wanted.allocType = cudaMemAllocationTypePinned;
    wanted.location.type = cudaMemLocationTypeDevice;
    wanted.location.id = device_.number;
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
      const cuda_kit::device_guard guard(device_);
      std::size_t free = 0;
      std::size_t total = 0;
      static_cast<void>(cudaMemGetInfo(&free, &total));
      throw shortage("GPU memory", request, {.live = live_bytes(), .limit = total, .fits = free});
    }
    cuda_kit::check(status, "cudaMallocFromPoolAsync");
    return memory;
  }
  void do_deallocate(void* memory, const memory_request&, cuda_stream& on) noexcept override {
    const auto [first, last] = users_.equal_range(memory);
    for (auto user = first; user != last; ++user) {
      cuda_event end;
      user->second->record(end);
      try {
        on.wait(end);
      } catch (const error&) {  // a stream that failed uses nothing more
      }
    }
    users_.erase(first, last);
    static_cast<void>(cudaFreeAsync(memory, on.handle()));
  }
  // The driver knows of one stream only, so that one waits for the others before it gives the memory back.
  void do_used_on(void* memory, const memory_request&, cuda_stream& by) override { users_.emplace(memory, &by); }

  std::size_t live_bytes() const {
    std::uint64_t bytes = 0;
    return cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrUsedMemCurrent, &bytes) == cudaSuccess
               ? static_cast<std::size_t>(bytes)
               : memory_figures::unknown;
  }

  cuda_device device_;
  cudaMemPool_t pool_ = nullptr;
  std::multimap<void*, cuda_stream*> users_;  // of blocks that were used on further streams
};

context(cuda_stream&, cuda_resource&) -> context<cuda>;

}  // namespace gradus
