#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "../../core/config.hpp"
#include "../../cpu/simd_math.hpp"
#include "../adamw_8bit.hpp"
#include "spans.hpp"

namespace gradus {

template <>
struct kernel<op::adamw_8bit_step, cpu> {
  template <class T, class G>
  static void forward(context<cpu>& ctx, const std::vector<block_span<T, G>>& spans, const adamw_options& rule,
                      const step_inputs& in) {
    if (in.skips()) return;
    constexpr index block = adamw_8bit_options::block;
    static_assert(cpu_kit::span_chunk % block == 0);
    const gradient_scaling<float> scaling(in);
    cpu_kit::parallel_spans(ctx, spans, [&](const block_span<T, G>& t, index begin, index end) {
      const auto update = rule.template at<float>(in.at(rule, t));
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
          cpu_kit::store_value(p, t.value + begin + i, which, in, t.first + begin + i);
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
    float most = 0;
    for (index i = 0; i < n; ++i) most = std::max(most, std::abs(from[i]));
    const float scale = most > 0 ? most : 1.0f;
    for (index i = 0; i < n; ++i) codes[i] = map.nearest(from[i] / scale);
    return most;
  }
};

}  // namespace gradus
