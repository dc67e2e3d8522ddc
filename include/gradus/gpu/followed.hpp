#pragma once
// Host values that kernels of a replayed graph read anew at each launch: settings and counters that change per step.

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
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

/// Values of the host, passed to the GPU as a kernel's argument.
struct followed_bytes {
  static constexpr std::size_t most = 2048;
  alignas(16) unsigned char at[most];
};
template <class = void>  // as a template, so that every file may have it
__global__ void put_followed_kernel(const __grid_constant__ followed_bytes from, uint4* to, unsigned count) {
  for (unsigned i = threadIdx.x; i < count; i += blockDim.x) to[i] = reinterpret_cast<const uint4*>(from.at)[i];
}

/// Device memory from which kernels of a captured step read the host's current settings and how far counters have
/// advanced. While the step is captured, launchers reserve places (of, moved); send() fills them before each launch.
class followed_values {
 public:
  static constexpr std::size_t most_counters = 16;

  followed_values() = default;
  followed_values(const followed_values&) = delete;
  followed_values& operator=(const followed_values&) = delete;
  ~followed_values() { static_cast<void>(cudaFree(memory_)); }

  /// Starts a new capture. Identifies counters by their addresses; the tape's is null.
  void begin(const cuda_stream& on, std::vector<const void*> counters) {
    const device_guard guard(on.device());
    if (memory_ == nullptr) check(cudaMalloc(&memory_, followed_bytes::most), "cudaMalloc (step_graph)");
    if (counters.size() > most_counters) throw error("step_graph: at most 16 tapes and optimizers");
    counters_ = std::move(counters);
    values_.clear();
    used_ = most_counters * sizeof(std::uint32_t);
    std::memset(host_.at, 0, used_);
  }
  /// The device address of `host`'s value at the time of the launch.
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
    if (place + sizeof(V) > followed_bytes::most)
      throw error("step_graph: the options of all optimizers exceed " + std::to_string(followed_bytes::most) +
                  " bytes");
    used_ = place + sizeof(V);
    values_.push_back({&host, sizeof(V), place});
    std::memcpy(host_.at + place, &host, sizeof(V));
    return reinterpret_cast<const V*>(memory_ + place);
  }
  template <class V>
  const V* of(const V&&) = delete;
  /// The device address of a counter's advance since the capture. Throws error for a counter unknown to begin().
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
  /// Rereads the host's values; without it, send() sends the values of the capture.
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

/// The key of random draws for kernels.
struct followed_key {
  random_key then;
  const std::uint32_t* moved;  ///< recordings of the tape since `then`; null: 0
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
