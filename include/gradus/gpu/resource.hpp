#pragma once
// GPU memory from the driver's stream-ordered allocator.

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

namespace cuda_kit {

/// Says that a captured step cannot allocate: memory of a graph would be given and taken back at each launch.
[[noreturn]] inline void fail_in_capture(const char* who, const memory_request& request) {
  throw error(std::string(who) + ": a captured step asked " + bytes_text(request.bytes) + " for " +
              purpose_text(request) +
              ", and cannot allocate: run the step once before it is captured, with a pool, which keeps its memory, or "
              "planned memory");
}
inline void refuse_in_capture(const cuda_stream& on, const char* who, const memory_request& request) {
  if (on.captures()) fail_in_capture(who, request);
}

}  // namespace cuda_kit

/// The driver's stream-ordered allocator on one GPU, with its own memory pool, which keeps freed memory: after the
/// first steps no allocation reaches the operating system. Use it with streams of that GPU.
class device_resource final : public cuda_resource {
 public:
  /// On the calling thread's current GPU. Throws error if there is no GPU.
  device_resource() : device_resource(cuda_device::current()) {}
  /// On this GPU. Throws error if it does not exist.
  explicit device_resource(cuda_device of) : device_(of) {
    cuda_kit::check_available(of, "device_resource");
    const cuda_kit::device_guard guard(device_);
    cudaMemPoolProps wanted{};
    wanted.allocType = cudaMemAllocationTypePinned;
    wanted.location.type = cudaMemLocationTypeDevice;
    wanted.location.id = device_.number;
    cuda_kit::check(cudaMemPoolCreate(&pool_, &wanted), "cudaMemPoolCreate");
    std::uint64_t keep = UINT64_MAX;  // the default, 0, returns everything at each synchronisation
    const cudaError_t status = cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &keep);
    if (status != cudaSuccess) {
      static_cast<void>(cudaMemPoolDestroy(pool_));
      cuda_kit::fail(status, "cudaMemPoolSetAttribute");
    }
  }
  /// Frees the pool; its memory is released when all submitted frees have run.
  ~device_resource() override { static_cast<void>(cudaMemPoolDestroy(pool_)); }

  /// Returns unused memory to the GPU.
  void trim() { cuda_kit::check(cudaMemPoolTrimTo(pool_, 0), "cudaMemPoolTrimTo"); }
  /// The most bytes in use at once.
  std::size_t peak_bytes() const {
    std::uint64_t bytes = 0;
    cuda_kit::check(cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrUsedMemHigh, &bytes), "cudaMemPoolGetAttribute");
    return static_cast<std::size_t>(bytes);
  }

 private:
  void* do_allocate(const memory_request& request, cuda_stream& on) override {
    cuda_kit::refuse_in_capture(on, "device_resource", request);
    void* memory = nullptr;
    cudaError_t status = cudaMallocFromPoolAsync(&memory, request.bytes, pool_, on.handle());
    if (status == cudaErrorMemoryAllocation) {  // cached blocks of other sizes may take the space
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
      } catch (const error&) {  // a failed stream no longer uses it
      }
    }
    users_.erase(first, last);
    static_cast<void>(cudaFreeAsync(memory, on.handle()));
  }
  // The driver knows the block's own stream only, so that stream waits for the others before the free.
  void do_used_on(void* memory, const memory_request&, cuda_stream& by) override { users_.emplace(memory, &by); }

  std::size_t live_bytes() const {
    std::uint64_t bytes = 0;
    return cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrUsedMemCurrent, &bytes) == cudaSuccess
               ? static_cast<std::size_t>(bytes)
               : memory_figures::unknown;
  }

  cuda_device device_;
  cudaMemPool_t pool_ = nullptr;
  std::multimap<void*, cuda_stream*> users_;  // blocks used on other streams, too
};

context(cuda_stream&, cuda_resource&) -> context<cuda>;

}  // namespace gradus
