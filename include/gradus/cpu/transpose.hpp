#pragma once
// Transposes square blocks in registers.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "../core/config.hpp"
#include "../core/extent.hpp"

namespace gradus::cpu_kit::inline GRADUS_BUILD {

namespace detail {
// Interleaves the lanes of a and b, from lane `First` on.
template <std::size_t First, class Vector, std::size_t... Is>
GRADUS_INLINE void riffle(const Vector& a, const Vector& b, Vector& to, std::index_sequence<Is...>) {
  to = Vector{(Is % 2 == 0 ? a[First + Is / 2] : b[First + Is / 2])...};
}
// The even (First = 0) or odd (1) lanes of a and b.
template <std::size_t First, class Vector, std::size_t... Is>
GRADUS_INLINE void every_other(const Vector& a, const Vector& b, Vector& to, std::index_sequence<Is...>) {
  constexpr std::size_t n = sizeof...(Is);
  to = Vector{(2 * Is + First < n ? a[(2 * Is + First) % n] : b[(2 * Is + First) % n])...};
}
}  // namespace detail

/// Transposes N rows of N lanes by log2(N) perfect shuffles of the upper and lower halves of the rows.
template <class Vector, std::size_t... Is>
GRADUS_INLINE void transpose_registers(Vector (&x)[sizeof...(Is)], std::index_sequence<Is...> all) {
  constexpr index_t n = sizeof...(Is);
  for (index_t step = 1; step < n; step *= 2) {
    Vector y[n];
    (detail::riffle<Is % 2 * n / 2>(x[Is / 2], x[Is / 2 + n / 2], y[Is], all), ...);
    ((x[Is] = y[Is]), ...);
  }
}

/// Transposes a Size x Size matrix in place.
template <index_t Size, class T>
void transpose_tile(T* tile) {
  using word = std::conditional_t<sizeof(T) == 8, std::uint64_t,
                                  std::conditional_t<sizeof(T) == 4, std::uint32_t,
                                                     std::conditional_t<sizeof(T) == 2, std::uint16_t, std::uint8_t>>>;
  static_assert(sizeof(T) == sizeof(word));
  constexpr index_t n = std::min<index_t>(8, Size);
  using vector __attribute__((vector_size(n * sizeof(word)))) = word;
  constexpr auto rows = std::make_index_sequence<n>{};
  const auto load = [&](index_t r, index_t c, vector(&x)[n]) {
    for (index_t i = 0; i < n; ++i)
      std::memcpy(&x[i], static_cast<const void*>(tile + (r + i) * Size + c), sizeof(vector));
    transpose_registers(x, rows);
  };
  const auto store = [&](index_t r, index_t c, const vector(&x)[n]) {
    for (index_t i = 0; i < n; ++i) std::memcpy(static_cast<void*>(tile + (r + i) * Size + c), &x[i], sizeof(vector));
  };
  for (index_t r = 0; r < Size; r += n) {
    vector x[n], y[n];
    load(r, r, x);
    store(r, r, x);
    for (index_t c = r + n; c < Size; c += n) {
      load(r, c, x);
      load(c, r, y);
      store(c, r, x);
      store(r, c, y);
    }
  }
}

}  // namespace gradus::cpu_kit::inline GRADUS_BUILD
