#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "../../core/config.hpp"
#include "../../cpu/simd_math.hpp"
#include "../adamw_8bit.hpp"
#include "spans.hpp"

namespace gradus {

template <>
struct kernel<op::adamw_8bit_step, cpu> {
  template <class T, class G>
  static void forward(context<cpu>& ctx, const std::vector<block_span<T, G>>& spans, const adamw_8bit_options& options,
                      const step_inputs& in) {
    if (in.skips()) return;
    const adamw_options rule = options.rule();
    constexpr index block = adamw_8bit_options::block;
    static_assert(cpu_kit::span_chunk % block == 0);
    const gradient_scaling<float> scaling(in);
    cpu_kit::parallel_spans(ctx, spans, [&](const block_span<T, G>& t, index begin, index end) {
      const auto update = rule.template at<float>(in.at(rule, t));
      cpu_kit::value_writer writer(in);
      for (; begin < end; begin += block) {
        const index n = std::min(block, end - begin);
        float here[2][block], *m = here[0], *v = here[1];
        if (t.codes[0] == nullptr) {
          m = t.states[0] + begin, v = t.states[1] + begin;
        } else {
          decode(dynamic_map_of<true>, t.codes[0] + begin, n, t.states[0][begin / block], m);
          decode(dynamic_map_of<false>, t.codes[1] + begin, n, t.states[1][begin / block], v);
        }
        cpu_kit::for_packs<float>(n, [&](index i, auto which) {
          pack<float> p = cpu_kit::load<float>(t.value + begin + i, which);
          pack<float> m1 = cpu_kit::load<float>(m + i, which), v1 = cpu_kit::load<float>(v + i, which);
          update(p, scaling(cpu_kit::load<float>(t.gradient + begin + i, which)), m1, v1);
          cpu_kit::store(m1, m + i, which);
          cpu_kit::store(v1, v + i, which);
          writer.write(p, t.value + begin + i, which, t.first + begin + i);
        });
        if (t.codes[0] == nullptr) continue;
        t.states[0][begin / block] = encode(dynamic_map_of<true>, m, n, t.codes[0] + begin);
        t.states[1][begin / block] = encode(dynamic_map_of<false>, v, n, t.codes[1] + begin);
      }
    });
  }

 private:
  template <bool Signed>
  static void decode(const dynamic_map<Signed>& map, const std::uint8_t* codes, index n, float scale, float* to) {
    for (index i = 0; i < n; ++i) to[i] = map.value[codes[i]] * scale;
  }
  // Returns the scale.
  template <bool Signed>
  static float encode(const dynamic_map<Signed>& map, const float* from, index n, std::uint8_t* codes) {
    pack<float> largest(0);
    cpu_kit::for_packs<float>(n, [&](index i, auto which) {
      const pack<float> size = abs(cpu_kit::load<float>(from + i, which));
      largest = select(size > largest, size, largest);
    });
    const float most = max_lanes(largest);
    const pack<float> scale(most > 0 ? most : 1.0f);
    cpu_kit::for_packs<float>(n, [&](index i, auto which) {
      const pack<float> x = cpu_kit::load<float>(from + i, which) / scale;
      using integers = typename cpu_kit::vector_of<std::int32_t, lanes<float>>::type;
      const integers steps = __builtin_convertvector(map.steps_from_zero(abs(x)).v, integers);
      integers code = (x.v < 0 ? -steps : steps) + static_cast<std::int32_t>(map.zero);
      code = code < 0 ? integers{} : code;  // there is no -1
      using bytes = typename cpu_kit::vector_of<std::uint8_t, lanes<float>>::type;
      const bytes narrow = __builtin_convertvector(code, bytes);
      std::memcpy(codes + i, &narrow, cpu_kit::lanes_in(which));
    });
    return most;
  }
};

}  // namespace gradus
