#pragma once
// What a graph that is launched again and again reads anew each time: numbers and settings that the host changes from
// step to step.

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "../core/error.hpp"
#include "../core/philox.hpp"
#include "../memory/context.hpp"
#include "device.hpp"
#include "error.hpp"
#include "launch.hpp"
#include "stream.hpp"

namespace gradus::cuda_kit {

/// Values of the host on their way to the GPU, as a kernel takes them along.
struct followed_bytes {
  static constexpr std::size_t most = 2048;
  alignas(16) unsigned char at[most];
};
template <class = void>  // as a template, so that every file may have it
__global__ void put_followed_kernel(const __grid_constant__ followed_bytes from, uint4* to, unsigned count) {
  for (unsigned i = threadIdx.x; i < count; i += blockDim.x) to[i] = reinterpret_cast<const uint4*>(from.at)[i];
}

/// Where kernels of a captured step find what the host has changed since: settings, and how far counters have moved.
/// While the step is captured, launchers ask for places (of, moved); before each launch of the graph, send() fills
/// them.
class followed_values {
 public:
  static constexpr std::size_t most_counters = 16;

  followed_values() = default;
  followed_values(const followed_values&) = delete;
  followed_values& operator=(const followed_values&) = delete;
  ~followed_values() { static_cast<void>(cudaFree(memory_)); }

  /// Forgets what was asked for before. Counters are known by the addresses `counters`; that of the tape is null.
  void begin(const cuda_stream& on, std::vector<const void*> counters) {
    const device_guard guard(on.device());
    if (memory_ == nullptr) check(cudaMalloc(&memory_, followed_bytes::most), "cudaMalloc (step_graph)");
    if (counters.size() > most_counters) throw error("step_graph: at most 16 tapes and optimizers");
    counters_ = std::move(counters);
    values_.clear();
    used_ = most_counters * sizeof(std::uint32_t);
    std::memset(host_.at, 0, used_);
  }
  /// Where kernels find `host`, as it is when the graph is launched.
  template <class V>
  const V* of(const V& host) {
    static_assert(std::is_trivially_copyable_v<V> && alignof(V) <= 16);
    for (const value& v : values_)
      if (v.host == &host && v.bytes == sizeof(V)) {
        if (std::memcmp(host_.at + v.place, &host, sizeof(V)) != 0)
          throw error(
              "step_graph: the step itself changes settings of an optimizer between two uses; change them before "
              "run()");
        return reinterpret_cast<const V*>(memory_ + v.place);
      }
    const std::size_t place = (used_ + 15) / 16 * 16;
    if (place + sizeof(V) > followed_bytes::most) throw error("step_graph: more optimizers than there is room for");
    used_ = place + sizeof(V);
    values_.push_back({&host, sizeof(V), place});
    std::memcpy(host_.at + place, &host, sizeof(V));
    return reinterpret_cast<const V*>(memory_ + place);
  }
  template <class V>
  const V* of(const V&&) = delete;
  /// Where kernels find how far a counter has moved since the step was captured. Throws error for one that was not
  /// given.
  const std::uint32_t* moved(const void* counter) {
    for (std::size_t i = 0; i < counters_.size(); ++i)
      if (counters_[i] == counter) return reinterpret_cast<const std::uint32_t*>(memory_) + i;
    throw error(counter == nullptr
                    ? "step_graph: the step draws random numbers, which depend on the tape's count of steps; give "
                      "the tape too: step_graph graph{ctx, tape, optimizer}"
                    : "step_graph: the step runs an optimizer that the graph was not given, and would not be counted; "
                      "give it too: step_graph graph{ctx, tape, optimizer}");
  }
  void set_moved(std::size_t counter, std::size_t by) {
    const auto word = static_cast<std::uint32_t>(by);
    std::memcpy(host_.at + counter * sizeof word, &word, sizeof word);
  }
  /// Takes the host's values as they are now; without it, send() sends them as they were when they were asked for.
  void look_again() {
    for (const value& v : values_) std::memcpy(host_.at + v.place, v.host, v.bytes);
  }
  /// Submits the copy.
  void send(context<cuda>& ctx) const {
    const auto count = static_cast<unsigned>((used_ + 15) / 16);
    launch(ctx, &put_followed_kernel<>, 1, 128, host_, reinterpret_cast<uint4*>(memory_), count);
  }

 private:
  struct value {
    const void* host;
    std::size_t bytes, place;
  };
  std::vector<const void*> counters_;
  std::vector<value> values_;
  std::size_t used_ = 0;
  followed_bytes host_ = {};
  unsigned char* memory_ = nullptr;
};

/// A key of random draws, as kernels get at it.
struct followed_key {
  random_key then;
  const std::uint32_t* moved;  ///< recordings of the tape since `then`; null: none
  __device__ random_key now() const {
    random_key key = then;
    if (moved != nullptr) key.step += *moved;
    return key;
  }
};
inline followed_key follow(context<cuda>& ctx, const random_key& key) {
  followed_values* const values = ctx.stream().followed();
  return {key, values != nullptr && key.domain == random_domain::tape ? values->moved(nullptr) : nullptr};
}

}  // namespace gradus::cuda_kit
