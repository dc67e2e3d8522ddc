#pragma once
// The product of a packed strip of A and packed panels of B on a tile unit.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "../core/config.hpp"
#include "../core/extent.hpp"

namespace gradus::cpu_kit::inline GRADUS_BUILD {

/// Multiplies two tiles of rows by two of columns at a time: four tiles of sums, two of A and two of B.
template <class Unit>
struct tile_product {
  static constexpr index_t side = 16;           ///< rows of a tile, and words or floats of a row
  static constexpr index_t columns = 2 * side;  ///< of a panel of B
  using word = std::uint32_t;                   ///< two bf16, adjacent along k

  /// C = A B + add for a strip of `Tall` tiles, `rows` rows of which exist in C; no `add` if it is null. The order of
  /// an element's sum: `add`, and then each 16 words of k. `steps`, the words of k, is a multiple of 16.
  /// @param a [steps / 16, 32, 16]
  /// @param b panels [steps, 32]
  template <index_t Tall>
  static void strip(index_t rows, index_t across, index_t steps, const word* a, const word* b, const float* add,
                    index_t add_stride, float* c, index_t ldc) {
    for (index_t j = 0; j < across; j += columns, b += steps * columns, c += columns) {
      const index_t there = std::min(columns, across - j);
      if (there == columns && rows == Tall * side) {
        panel(sums<Tall>{}, steps, a, b, add, add_stride, c, ldc);
      } else {  // at an edge of C: in a block of its own
        alignas(64) float edge[Tall * side * columns] = {};
        for (index_t r = 0; r < rows && add != nullptr; ++r)
          std::copy_n(add + r * add_stride, there, edge + r * columns);
        panel(sums<Tall>{}, steps, a, b, edge, columns, edge, columns);
        for (index_t r = 0; r < rows; ++r) std::copy_n(edge + r * columns, there, c + r * ldc);
      }
      if (add != nullptr) add += columns;
    }
  }

 private:
  template <index_t Tall>
  using sums = std::make_index_sequence<2 * Tall>;

  // Prefetches the next panel's C, two rows a step. Not inlined, so that an edge does not double the code.
  template <std::size_t... Is>
  [[gnu::noinline]] static void panel(std::index_sequence<Is...>, index_t steps, const word* a, const word* b,
                                      const float* add, index_t add_stride, float* c, index_t ldc) {
    constexpr bool tall = sizeof...(Is) == 4;
    if (add == nullptr) (Unit::template zero<Is>(), ...);
    else (Unit::template load<Is>(add + Is / 2 * side * add_stride + Is % 2 * side, add_stride * sizeof(float)), ...);
    const float* next = c + columns;
    for (const word* const end = b + steps * columns; b != end; a += 2 * side * side, b += side * columns) {
      for (index_t r = 0; r < 2; ++r, next += ldc) __builtin_prefetch(next, 1), __builtin_prefetch(next + side, 1);
      Unit::template load<4>(a, side * sizeof(word));
      Unit::template load<6>(b, columns * sizeof(word));
      Unit::template load<7>(b + side, columns * sizeof(word));
      Unit::template dot<0, 4, 6>();
      Unit::template dot<1, 4, 7>();
      if constexpr (tall) {
        Unit::template load<5>(a + side * side, side * sizeof(word));
        Unit::template dot<2, 5, 6>();
        Unit::template dot<3, 5, 7>();
      }
    }
    (Unit::template store<Is>(c + Is / 2 * side * ldc + Is % 2 * side, ldc * sizeof(float)), ...);
  }
};

}  // namespace gradus::cpu_kit::inline GRADUS_BUILD
