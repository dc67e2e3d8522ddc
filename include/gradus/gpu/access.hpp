#pragma once
// Memory access on a GPU: zero, fill, upload, download and copy, ordered on the context's stream.

#include <cuda_runtime.h>

#include <cstddef>
#include <memory>
#include <span>

#include "../memory/context.hpp"
#include "device.hpp"
#include "pinned.hpp"
#include "runs.hpp"

namespace gradus {

namespace cuda_kit {
template <class T>
__global__ void __launch_bounds__(block_threads) fill_kernel(T* to, T value, index_t size) {
  constexpr int width = vector_width<T>;
  vector_of<T, width> v;
#pragma unroll
  for (int i = 0; i < width; ++i) v.at[i] = value;
  flat_run<width>(size, [&](auto whole, index_t at, int n) { store<width, whole.value>(to + at, v, n); });
}
}  // namespace cuda_kit

/// An upload from pageable memory has copied it on return; pinned memory must stay unchanged until the stream has
/// passed the upload. A download returns when the bytes have arrived; download_later returns at once.
template <>
struct device_access<cuda> {
  static void zero(context<cuda>& ctx, void* to, std::size_t bytes) {
    const cuda_kit::device_guard guard(ctx.stream().device());  // the copy may be a kernel
    cuda_kit::check(cudaMemsetAsync(to, 0, bytes, ctx.stream().handle()), "cudaMemsetAsync");
  }
  template <class T>
  static void fill(context<cuda>& ctx, T* to, T value, index_t size) {
    launch(ctx, &cuda_kit::fill_kernel<T>, cuda_kit::flat_blocks(size, cuda_kit::vector_width<T>),
           cuda_kit::block_threads, to, value, size);
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
    download_later(ctx, to, from, bytes);
    ctx.stream().synchronize();
  }
  /// Copies into pinned memory, which is valid once the stream has passed the copy.
  static void download_later(context<cuda>& ctx, void* to, const void* from, std::size_t bytes) {
    cuda_kit::check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, ctx.stream().handle()),
                    "cudaMemcpyAsync (device to host)");
  }
  /// See detail::offload_link.
  using offload_memory = cuda_kit::pinned_pool;
  /// Pinned host memory. Throws error if there is no more.
  template <class T>
  class host_values {
    struct give_back {
      void operator()(T* memory) const { static_cast<void>(cudaFreeHost(memory)); }
    };
    std::unique_ptr<T[], give_back> values_;
    index_t size_;

   public:
    explicit host_values(index_t size) : size_(size) {
      void* memory = nullptr;
      cuda_kit::check(cudaMallocHost(&memory, size * sizeof(T)), "cudaMallocHost");
      values_.reset(static_cast<T*>(memory));
    }
    std::span<T> all() { return {values_.get(), size_}; }
    std::span<const T> all() const { return {values_.get(), size_}; }
  };
};

}  // namespace gradus
