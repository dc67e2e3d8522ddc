#pragma once
// Counter-based random numbers: Philox, and the keys that identify a stream of draws.

#include <array>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "config.hpp"

namespace gradus {

namespace detail {

/// A product of two words: its upper and its lower half.
struct wide_product {
  std::uint32_t upper, lower;
};
GRADUS_HD constexpr wide_product multiply_wide(std::uint32_t a, std::uint32_t b) {
#if GRADUS_GPU_PASS
  if (!std::is_constant_evaluated()) {  // from 64-bit C++, nvcc makes 64-bit arithmetic of all that follows
    wide_product product;
    asm("{.reg .b64 both; mul.wide.u32 both, %2, %3; mov.b64 {%1, %0}, both;}"
        : "=r"(product.upper), "=r"(product.lower)
        : "r"(a), "r"(b));
    return product;
  }
#endif
  const std::uint64_t product = std::uint64_t{a} * b;
  return {static_cast<std::uint32_t>(product >> 32), static_cast<std::uint32_t>(product)};
}

/// The rounds of philox4x32; keys(round) are the two words of each round's key.
template <class Keys>
GRADUS_HD constexpr std::array<std::uint32_t, 4> philox_rounds(std::array<std::uint32_t, 4> counter, Keys&& keys) {
  for (std::uint32_t round = 0; round < 10; ++round) {
    const std::array<std::uint32_t, 2> key = keys(round);
    const auto p0 = multiply_wide(0xD2511F53u, counter[0]);
    const auto p1 = multiply_wide(0xCD9E8D57u, counter[2]);
    counter = {p1.upper ^ counter[1] ^ key[0], p1.lower, p0.upper ^ counter[3] ^ key[1], p0.lower};
  }
  return counter;
}

}  // namespace detail

/// The key of one of Philox's rounds.
GRADUS_HD constexpr std::array<std::uint32_t, 2> philox_round_key(const std::array<std::uint32_t, 2>& key,
                                                                  std::uint32_t round) {
  return {key[0] + round * 0x9E3779B9u, key[1] + round * 0xBB67AE85u};
}
/// Philox4x32-10, a counter-based generator (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", 2011): a
/// pure function from a 128-bit counter and a 64-bit key to four independent 32-bit words.
GRADUS_HD constexpr std::array<std::uint32_t, 4> philox4x32(const std::array<std::uint32_t, 4>& counter,
                                                            const std::array<std::uint32_t, 2>& key) {
  return detail::philox_rounds(counter, [&](std::uint32_t round) { return philox_round_key(key, round); });
}

/// The owner of a key. Keys of different domains never yield the same draws.
enum class random_domain : std::uint32_t {
  user,      ///< keys that a program specifies: `uniform(ctx, {.seed = 1})`
  tape,      ///< keys that a tape assigns: dropout
  rounding,  ///< keys of an optimizer that rounds stochastically
  data,      ///< keys that select the data of a batch
};

/// Identifies one stream of random numbers: owner (domain and seed), time (step) and operation (ordinal). Draw i is a
/// pure function of the key and i: the same on any thread, in any order, and when recomputed.
struct random_key {
  std::uint64_t seed = 0;
  std::uint32_t step = 0;
  std::uint32_t ordinal = 0;
  random_domain domain = random_domain::user;

  /// The upper half of a group's counter: a tensor has fewer than 2^56 groups, so the top byte holds the domain.
  GRADUS_HD constexpr std::uint32_t upper_counter(std::uint64_t group) const {
    return static_cast<std::uint32_t>(group >> 32) | static_cast<std::uint32_t>(domain) << 24;
  }
  /// Philox's counter for a group, and its key.
  GRADUS_HD constexpr std::array<std::uint32_t, 4> counter(std::uint64_t group) const {
    return {static_cast<std::uint32_t>(group), upper_counter(group), ordinal, step};
  }
  GRADUS_HD constexpr std::array<std::uint32_t, 2> key() const {
    return {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)};
  }
  /// Four random words for the group of elements `4*group .. 4*group+3`.
  GRADUS_HD constexpr std::array<std::uint32_t, 4> words(std::uint64_t group) const {
    return philox4x32(counter(group), key());
  }
  /// Sixteen random bits for element i: half of a word of group i / 8, the lower half first.
  GRADUS_HD constexpr std::uint32_t half(std::uint64_t i) const {
    return words(i / 8)[i % 8 / 2] >> i % 2 * 16 & 0xFFFF;
  }
};

/// A word as a float in [0, 1): its top 24 bits times 2^-24.
GRADUS_HD constexpr float uniform_float(std::uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24f; }

/// Two independent standard normal draws from two words (Box-Muller).
inline std::array<float, 2> normal_pair(std::uint32_t a, std::uint32_t b) {
  const double u = (static_cast<double>(a) + 1.0) * 0x1p-32;  // in (0, 1], for a finite logarithm
  const double angle = 6.283185307179586476925 * (static_cast<double>(b) * 0x1p-32);
  const double radius = std::sqrt(-2.0 * std::log(u));
  return {static_cast<float>(radius * std::cos(angle)), static_cast<float>(radius * std::sin(angle))};
}

}  // namespace gradus
