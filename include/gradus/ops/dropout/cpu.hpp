#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "../../core/config.hpp"
#include "../../cpu/parallel.hpp"
#include "../../cpu/vector_loop.hpp"
#include "dropout.hpp"

namespace gradus {

namespace cpu_kit::inline GRADUS_BUILD {

/// Eight Philox draws at once, the same words as random_key::words: lane g holds the draw for group first + g, and its four
/// words are the lower halves of w[0..3].
struct philox_lanes {
  using words __attribute__((vector_size(64))) = std::uint64_t;
  static constexpr index groups = 8;
  words w[4];

  static GRADUS_INLINE philox_lanes draw(const random_key& key, std::uint64_t first) {
    const words low = words{} + 0xFFFFFFFFu;
    const words group = words{0, 1, 2, 3, 4, 5, 6, 7} + first;
    words c0 = group & low;
    words c1 = (group >> 32) | std::uint64_t{key.upper_counter(0)};
    words c2 = words{} + key.ordinal;
    words c3 = words{} + key.step;
    auto k0 = static_cast<std::uint32_t>(key.seed);
    auto k1 = static_cast<std::uint32_t>(key.seed >> 32);
    for (int round = 0; round < 10; ++round) {
      const words p0 = c0 * 0xD2511F53u;
      const words p1 = c2 * 0xCD9E8D57u;
      c0 = (p1 >> 32) ^ c1 ^ std::uint64_t{k0};
      c1 = p1 & low;
      c2 = (p0 >> 32) ^ c3 ^ std::uint64_t{k1};
      c3 = p0 & low;
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    return {{c0, c1, c2, c3}};
  }
};

}  // namespace cpu_kit::inline GRADUS_BUILD

template <>
struct kernel<op::dropout, cpu> {
  /// `y` may be `x`.
  template <class T, class S>
  static void forward(context<cpu>& ctx, const random_key& key, std::uint32_t threshold, double scale, view<T, S> y,
                      view<const T, S> x) {
    using C = compute_type<T>;
    constexpr index step = 4 * cpu_kit::philox_lanes::groups;  // elements a draw serves
    const C kept = static_cast<C>(scale);
    cpu_kit::parallel_elements(ctx, S::size, 1 << 13, [=](index begin, index end) {  // ranges start at whole draws
      for (index i = begin; i < end; i += step) {
        const auto drawn = cpu_kit::philox_lanes::draw(key, i / 4);
        C factor[step];
        for (index word = 0; word < 4; ++word) {
          std::uint64_t of_group[cpu_kit::philox_lanes::groups];
          std::memcpy(of_group, &drawn.w[word], sizeof of_group);
          for (index g = 0; g < cpu_kit::philox_lanes::groups;
               ++g)  // a product, for no processor predicts a random branch
            factor[4 * g + word] = static_cast<C>(of_group[g] >= threshold) * kept;
        }
        cpu_kit::for_packs<C>(std::min(step, end - i), [&](index k, auto n) {
          cpu_kit::store(cpu_kit::load<C>(x.data() + i + k, n) * pack<C>::load(factor + k), y.data() + i + k, n);
        });
      }
    });
  }
};

}  // namespace gradus
