#pragma once
// The step of AdamW with moments of 8 bits, on the GPU.

#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "../../gpu/rows.hpp"
#include "../adamw_8bit.hpp"
#include "followed_step.hpp"
#include "gradient_pass.hpp"
#include "spans.hpp"

namespace gradus {

namespace cuda_kit {

static_assert(sizeof(span_table<block_span<float, float>>) + 512 <= 4096);

/// The numbers of 8-bit states, on the GPU.
template <bool Signed>
const __device__ dynamic_map<Signed> map_on_gpu{};
template <class Map>
__device__ inline const Map& in_shared_memory(const Map& map, unsigned char* memory) {
  static_assert(sizeof(Map) % 4 == 0);
  for (unsigned i = threadIdx.x; i < sizeof(Map) / 4; i += block_threads)
    reinterpret_cast<std::uint32_t*>(memory)[i] = reinterpret_cast<const std::uint32_t*>(&map)[i];
  return *reinterpret_cast<const Map*>(memory);
}

/// One thread a value; a block of threads updates a block of values, which share a scale.
template <class T, class G>
__global__ void __launch_bounds__(block_threads)
    adamw_8bit_kernel(const __grid_constant__ span_table<block_span<T, G>> table,
                      followed_step<adamw_8bit_options> known) {
  constexpr index_t block = adamw_8bit_options::block;
  static_assert(block == block_threads && update_chunk % block == 0);
  const step_inputs& in = known.in;
  if (in.skips()) return;
  __shared__ alignas(16) unsigned char memory[2][sizeof(dynamic_map<true>)];
  const auto& first_map = in_shared_memory(map_on_gpu<true>, memory[0]);
  const auto& second_map = in_shared_memory(map_on_gpu<false>, memory[1]);
  __syncthreads();
  using update_type = decltype(known.rule.rule().template at<float>(tensor_step{}));
  __shared__ alignas(update_type) unsigned char constants[sizeof(update_type)];
  shared_update<update_type> updates(constants);
  const gradient_scaling<float> scaling(in);
  const random_key key = known.key();
  for_chunks(table, [&](const block_span<T, G>& s, index_t begin, index_t end) {
    auto& update = updates.of(s, [&] {
      const auto now = known.now();
      return now.rule.rule().template at<float>(now.in.at(now.rule, s));
    });
    const bool in_codes = s.codes[0] != nullptr;
    for (; begin < end; begin += block) {
      const index_t at = begin + threadIdx.x;
      const bool here = at < end;
      float m = 0, v = 0;
      if (here) {
        m = in_codes ? first_map.value[s.codes[0][at]] * s.states[0][begin / block] : s.states[0][at];
        v = in_codes ? second_map.value[s.codes[1][at]] * s.states[1][begin / block] : s.states[1][at];
        float p = static_cast<float>(s.value[at]);
        update(p, scaling(static_cast<float>(s.gradient[at])), m, v);
        write_value(s.value + at, p, in.rounds, key, s.draw + at);
      }
      if (!in_codes) {
        if (here) s.states[0][at] = m, s.states[1][at] = v;
        continue;
      }
      // As on the CPU: moments that are not finite become 0, and a v above 0 is never coded as 0.
      if (!(v <= std::numeric_limits<float>::max())) m = v = 0;
      const float most_m = row_max<static_cast<int>(block_threads)>(here ? fabsf(m) : 0.0f);
      const float most_v = row_max<static_cast<int>(block_threads)>(here ? fabsf(v) : 0.0f);
      if (threadIdx.x == 0) s.states[0][begin / block] = most_m, s.states[1][begin / block] = most_v;
      if (!here) continue;
      s.codes[0][at] = first_map.nearest(m / (most_m > 0 ? most_m : 1.0f));
      const std::uint8_t code = second_map.nearest(v / (most_v > 0 ? most_v : 1.0f));
      s.codes[1][at] = v > 0 && code == 0 ? 1 : code;
    }
  });
}

}  // namespace cuda_kit

template <>
struct kernel<op::adamw_8bit_step, cuda> {
  template <class T, class G>
  static void forward(context<cuda>& ctx, const std::vector<block_span<T, G>>& spans, const adamw_8bit_options& options,
                      const step_inputs& in) {
    cuda_kit::launch_on_spans(ctx, spans, &cuda_kit::adamw_8bit_kernel<T, G>, cuda_kit::follow(ctx, options, in));
  }
};

}  // namespace gradus
