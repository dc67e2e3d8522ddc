#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>

#include "../memory/context.hpp"
#include "error.hpp"
#include "resource.hpp"
#include "stream.hpp"

namespace gradus {

/// Everything is ordered on the context's stream. An upload from ordinary memory is staged before it returns; pinned memory must
/// stay as it is until the stream has passed. A download returns when the bytes are there.
template <>
struct device_access<cuda> {
  static void zero(context<cuda>& ctx, void* to, std::size_t bytes) {
    cuda_kit::check(cudaMemsetAsync(to, 0, bytes, ctx.stream().handle()), "cudaMemsetAsync");
  }
  static void copy(context<cuda>& ctx, void* to, const void* from, std::size_t bytes) {
    cuda_kit::check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, ctx.stream().handle()),
                    "cudaMemcpyAsync (device to device)");
  }
  static void upload(context<cuda>& ctx, void* to, const void* from, std::size_t bytes) {
    cuda_kit::check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, ctx.stream().handle()),
                    "cudaMemcpyAsync (host to device)");
  }
  static void download(context<cuda>& ctx, void* to, const void* from, std::size_t bytes) {
    cuda_kit::check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, ctx.stream().handle()),
                    "cudaMemcpyAsync (device to host)");
    ctx.stream().synchronize();
  }
};

}  // namespace gradus
