#pragma once
// The only file that includes CUB, which costs nvcc more than all of gradus: compiled.cu has it once for a program.

#include <cub/device/device_radix_sort.cuh>

#include <cstddef>
#include <cstdint>
#include <thread>

#include "device.hpp"
#include "launch.hpp"
#include "sort.hpp"

namespace gradus::cuda_kit {

/// Calls f on the context's GPU; on a new thread if cudaGetLastError holds an error, which CUB would report as its own.
template <class F>
cudaError_t call_cub(context<cuda>& ctx, const F& f) {
  cudaError_t status = cudaSuccess;
  const auto call = [&] {
    const device_guard guard(ctx.stream().device());
    status = f();
  };
  if (cudaPeekAtLastError() == cudaSuccess) call();
  else std::thread(call).join();
  return status;
}

GRADUS_CUDA_IMPL std::size_t sort_room(context<cuda>& ctx, int count, int bits) {
  std::size_t bytes = 0;
  const std::uint32_t* const none = nullptr;
  const auto sort = [&] {
    return cub::DeviceRadixSort::SortPairs(nullptr, bytes, none, static_cast<std::uint32_t*>(nullptr), none,
                                           static_cast<std::uint32_t*>(nullptr), count, 0, bits);
  };
  check(call_cub(ctx, sort), "cub::DeviceRadixSort::SortPairs");
  return bytes;
}
GRADUS_CUDA_IMPL void sort_pairs(context<cuda>& ctx, void* room, std::size_t bytes, const std::uint32_t* keys,
                                 std::uint32_t* sorted_keys, const std::uint32_t* values, std::uint32_t* sorted_values,
                                 int count, int bits) {
  const auto sort = [&] {
    return cub::DeviceRadixSort::SortPairs(room, bytes, keys, sorted_keys, values, sorted_values, count, 0, bits,
                                           ctx.stream().handle());
  };
  check(call_cub(ctx, sort), "cub::DeviceRadixSort::SortPairs");
  finish(ctx, "cub::DeviceRadixSort");
}

}  // namespace gradus::cuda_kit
