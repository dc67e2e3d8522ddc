#pragma once
// The one header that includes CUB: a stable sort of numbers by keys.
#include <cub/device/device_radix_sort.cuh>

#include <cstddef>
#include <cstdint>
#include <thread>

#include "workspace.hpp"

namespace gradus::cuda_kit {

/// Calls f, whose code takes what cudaGetLastError has for its own: in a thread of its own where there is an error of the program's.
template <class F>
void without_earlier_error(const F& f) {
  if (cudaPeekAtLastError() == cudaSuccess) return f();
  std::thread(f).join();
}

/// Bytes of room that sort_pairs wants for `count` pairs, beside the pairs.
template <class = void>
std::size_t sort_room(int count, int bits) {
  std::size_t bytes = 0;
  const std::uint32_t* const none = nullptr;
  cudaError_t status = cudaSuccess;
  without_earlier_error([&] {
    status = cub::DeviceRadixSort::SortPairs(nullptr, bytes, none, static_cast<std::uint32_t*>(nullptr), none,
                                             static_cast<std::uint32_t*>(nullptr), count, 0, bits);
  });
  check(status, "cub::DeviceRadixSort::SortPairs");
  return bytes;
}
/// The pairs (keys[i], values[i]) in the order of the lowest `bits` bits of their keys; pairs of equal keys stay in theirs.
template <class = void>
void sort_pairs(context<cuda>& ctx, void* room, std::size_t bytes, const std::uint32_t* keys,
                std::uint32_t* sorted_keys, const std::uint32_t* values, std::uint32_t* sorted_values, int count,
                int bits) {
  cudaError_t status = cudaSuccess;
  without_earlier_error([&] {
    status = cub::DeviceRadixSort::SortPairs(room, bytes, keys, sorted_keys, values, sorted_values, count, 0, bits,
                                             ctx.stream().handle());
  });
  check(status, "cub::DeviceRadixSort::SortPairs");
}

}  // namespace gradus::cuda_kit
