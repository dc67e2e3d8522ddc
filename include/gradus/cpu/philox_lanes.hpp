#pragma once
// Philox in SIMD lanes: eight draws at once.

#include <cstdint>
#include <cstring>

#include "../core/config.hpp"
#include "../core/extent.hpp"
#include "../core/philox.hpp"

namespace gradus::cpu_kit::inline GRADUS_BUILD {

/// Eight Philox draws, as random_key::words: lane g has group first + g, in the lower halves of w[0..3].
struct philox_lanes {
  using words __attribute__((vector_size(64))) = std::uint64_t;
  static constexpr index_t groups = 8;
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

  static constexpr index_t halves = 8 * groups;
  /// Stores the halves of the words in the order of random_key::half.
  GRADUS_INLINE void store(std::uint16_t* to) const {
    const words a = w[0] | w[1] << 32, b = w[2] | w[3] << 32;
    const words first{a[0], b[0], a[1], b[1], a[2], b[2], a[3], b[3]};
    const words second{a[4], b[4], a[5], b[5], a[6], b[6], a[7], b[7]};
    std::memcpy(to, &first, sizeof first);
    std::memcpy(to + halves / 2, &second, sizeof second);
  }
};

}  // namespace gradus::cpu_kit::inline GRADUS_BUILD
