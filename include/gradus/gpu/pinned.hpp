#pragma once
// Pinned host memory, which a GPU copies from and to while the host goes on.

#include <cuda_runtime_api.h>

#include <cstddef>

#include "../core/error.hpp"
#include "../memory/diagnostics.hpp"
#include "../memory/pool_resource.hpp"
#include "../memory/resource.hpp"
#include "../memory/stream.hpp"
#include "device.hpp"
#include "resource.hpp"
#include "stream.hpp"

namespace gradus {

/// Pinned memory of the host. Each request takes long and may wait for the GPU: use it through a pool. Throws
/// out_of_memory if there is no more, and without a GPU.
class pinned_resource final : public memory_resource {
  void* do_allocate(const memory_request& request, stream&) override {
    void* memory = nullptr;
    const cudaError_t status = cudaMallocHost(&memory, request.bytes);
    if (status == cudaSuccess) return memory;
    static_cast<void>(cudaGetLastError());
    if (status == cudaErrorStreamCaptureUnsupported) cuda_kit::fail_in_capture("pinned host memory", request);
    throw shortage("pinned host memory", request, {});
  }
  void do_deallocate(void* memory, const memory_request&, stream&) noexcept override {
    static_cast<void>(cudaFreeHost(memory));
  }
};

/// Pinned memory of the host for a GPU's contexts: kernels read and write it over the bus while they compute. For
/// optimizer states that do not fit into the GPU's memory: pass optimizer.step() a context of this resource and the
/// model's stream. A block is freed after the work of its stream, for which the host waits. Throws out_of_memory.
class pinned_gpu_resource final : public cuda_resource {
  void* do_allocate(const memory_request& request, cuda_stream& on) override {
    cuda_kit::refuse_in_capture(on, "pinned host memory", request);
    const cuda_kit::device_guard guard(on.device());
    void* memory = nullptr;
    if (cudaMallocHost(&memory, request.bytes) != cudaSuccess) {
      static_cast<void>(cudaGetLastError());
      throw shortage("pinned host memory", request, {});
    }
    return memory;
  }
  void do_deallocate(void* memory, const memory_request&, cuda_stream& on) noexcept override {
    try {
      on.synchronize();
    } catch (const error&) {  // a failed stream no longer uses it
    }
    static_cast<void>(cudaFreeHost(memory));
  }
};

namespace cuda_kit {

// The memory that results are offloaded to, unless offload_to() names another.
class pinned_pool {
 public:
  memory_resource& resource() { return pool_; }

 private:
  pinned_resource pinned_;
  basic_pool_resource<stream> pool_{pinned_};
};

}  // namespace cuda_kit

}  // namespace gradus
