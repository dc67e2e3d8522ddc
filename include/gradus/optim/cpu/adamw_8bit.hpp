#pragma once
// The step of AdamW with moments of 8 bits, on the CPU.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "../../core/config.hpp"
#include "../../cpu/simd_math.hpp"
#include "../adamw_8bit.hpp"
#include "gradient_pass.hpp"
#include "spans.hpp"

namespace gradus {

template <>
struct kernel<op::adamw_8bit_step, cpu> {
  template <class T, class G>
  static void forward(context<cpu>& ctx, const std::vector<block_span<T, G>>& spans, const adamw_8bit_options& options,
                      const step_inputs& in) {
    if (in.skips()) return;
    const adamw_options rule = options.rule();
    constexpr index_t block = adamw_8bit_options::block;
    static_assert(cpu_kit::span_chunk % block == 0);
    const gradient_scaling<float> scaling(in);
    cpu_kit::parallel_spans(ctx, spans, [&](const block_span<T, G>& t, index_t begin, index_t end) {
      const auto update = rule.template at<float>(in.at(rule, t));
      cpu_kit::value_writer writer(in);
      for (; begin < end; begin += block) {
        const index_t n = std::min(block, end - begin);
        alignas(register_bytes) float here[2][block], *m = here[0], *v = here[1];
        const bool coded = t.codes[0] != nullptr;
        if (!coded) {
          m = t.states[0] + begin, v = t.states[1] + begin;
        } else {
          decode<true>(t.codes[0] + begin, n, t.states[0][begin / block], m);
          decode<false>(t.codes[1] + begin, n, t.states[1][begin / block], v);
        }
        pack<float> most_m(0), most_v(0);
        // Inlined, so that the largest magnitudes stay in registers.
        cpu_kit::for_packs<float>(
            n, [&](index_t i, auto which) __attribute__((always_inline)) {
              pack<float> p = cpu_kit::load<float>(t.value + begin + i, which);
              pack<float> m1 = cpu_kit::load<float>(m + i, which), v1 = cpu_kit::load<float>(v + i, which);
              update(p, scaling(cpu_kit::load<float>(t.gradient + begin + i, which)), m1, v1);
              if (coded) {  // an infinity would be the scale of its block
                const auto finite = v1 <= pack<float>(std::numeric_limits<float>::max());
                m1 = select(finite, m1, pack<float>(0)), v1 = select(finite, v1, pack<float>(0));
              }
              const pack<float> size = abs(m1);
              most_m = select(size > most_m, size, most_m);
              most_v = select(v1 > most_v, v1, most_v);
              cpu_kit::store(m1, m + i, which);
              cpu_kit::store(v1, v + i, which);
              writer.write(p, t.value + begin + i, which, t.draw + begin + i);
            });
        if (!coded) continue;
        encode<true>(m, n, t.states[0][begin / block] = max_lanes(most_m), t.codes[0] + begin);
        encode<false>(v, n, t.states[1][begin / block] = max_lanes(most_v), t.codes[1] + begin);
      }
    });
  }

 private:
  using integers = typename cpu_kit::vector_of<std::int32_t, lanes<float>>::type;
  using shorts = typename cpu_kit::vector_of<std::uint16_t, lanes<float>>::type;
  using bytes = typename cpu_kit::vector_of<std::uint8_t, lanes<float>>::type;

  // Writes scale times the number of each code. With wide registers, computing it is faster than reading the table.
  template <bool Signed>
  static void decode(const std::uint8_t* codes, index_t n, float scale, float* to) {
    using map = dynamic_map<Signed>;
    if constexpr (lanes<float> < 8) {
      for (index_t i = 0; i < n; ++i) to[i] = dynamic_map_of<Signed>.value[codes[i]] * scale;
    } else {
      constexpr std::int32_t first_of_decade = map::first_of_decade, zero = map::zero;
      constexpr float powers_of_5[] = {1, 5, 25, 125, 625, 3125, 15625, 78125, 1, 5, 25, 125, 625, 3125, 15625, 78125};
      cpu_kit::for_packs<float>(n, [&](index_t i, auto which) {
        using floats = pack<float>::native;
        bytes narrow{};
        std::memcpy(&narrow, codes + i, cpu_kit::lanes_in(which));
        // In two steps: g++ 12 converts u8 to i32 lane by lane.
        const integers code = __builtin_convertvector(__builtin_convertvector(narrow, shorts), integers) - zero;
        const integers steps = code < 0 ? -code : code;
        const floats count = __builtin_convertvector(steps + (first_of_decade - 1), floats);
        // A decade's `first` is a power of two: the count without its mantissa.
        const integers bits = cpu_math::bits_as<integers>(count) & 0x7F800000;
        const pack<float> first(cpu_math::bits_as<floats>(bits));
        const pack<float> power = lanes_at(pack<float>::load(powers_of_5), (bits >> 23) - (126 + first_of_decade));
        pack<float> x = map::in_decade(pack<float>(count), first, power);
        x.v = steps == 0 ? floats{} : steps == 255 - zero ? floats{} + 1 : x.v;
        x = x * pack<float>(scale);
        x.v = code < 0 ? -x.v : x.v;
        cpu_kit::store(x, to + i, which);
      });
    }
  }
  template <bool Signed>
  static void encode(const float* from, index_t n, float largest, std::uint8_t* codes) {
    const dynamic_map<Signed>& map = dynamic_map_of<Signed>;
    // Subnormal blocks become 0: their scale has no reciprocal.
    const pack<float> scale(largest >= std::numeric_limits<float>::min() ? 1 / largest : 1.0f);
    cpu_kit::for_packs<float>(n, [&](index_t i, auto which) {
      const pack<float> raw = cpu_kit::load<float>(from + i, which), x = raw * scale;
      const pack<float> size = abs(x);
      integers steps = __builtin_convertvector(map.steps_from_zero(size).v, integers);
      // A mean of squares above 0 is never coded as 0: the step would divide by eps alone.
      if constexpr (!Signed) steps = ((raw.v > 0) & (steps == 0)) ? integers{} + 1 : steps;
      integers code = (x.v < 0 ? -steps : steps) + static_cast<std::int32_t>(map.zero);
      code = code < 0 ? integers{} : code;  // there is no -1
      const bytes narrow = __builtin_convertvector(__builtin_convertvector(code, shorts), bytes);
      std::memcpy(codes + i, &narrow, cpu_kit::lanes_in(which));
    });
  }
};

}  // namespace gradus
