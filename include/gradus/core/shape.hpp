#pragma once
#include <array>
#include <cstddef>
#include <initializer_list>
#include <utility>

#include "extent.hpp"

namespace gradus {

namespace detail {
// The product of extents, or 0 where it cannot be counted (2^48 elements and more: no machine has room).
constexpr index checked_product(std::initializer_list<index> extents) {
  index product = 1;
  for (const index e : extents) {
    if (e == 0 || product > (index{1} << 48) / e) return 0;
    product *= e;
  }
  return product;
}
}  // namespace detail

/// The extents of a tensor, outermost first, as a type: `shape<2, 3>` has 2 rows and 3 columns; `shape<>` is a scalar.
template <index... Extents>
struct shape {
  static_assert(((Extents > 0) && ...), "every extent of a shape must be at least 1");
  static_assert(((Extents != dyn) && ...), "run-time extents (dyn) are reserved, not supported yet");

  static_assert(detail::checked_product({Extents...}) > 0 || !((Extents > 0) && ...),
                "a shape of more than 2^48 elements");

  static constexpr index rank = sizeof...(Extents);
  static constexpr index size = detail::checked_product({Extents...});  ///< number of elements
  static constexpr std::array<index, rank> extents{Extents...};

  /// Extent of `axis`, counted from the front when >= 0 and from the back when negative.
  static constexpr index extent(std::ptrdiff_t axis) {
    return extents[static_cast<index>(axis < 0 ? axis + static_cast<std::ptrdiff_t>(rank) : axis)];
  }
  /// Distance, in elements, between neighbours along `axis` in row-major order.
  static constexpr index stride(std::ptrdiff_t axis) {
    index a = static_cast<index>(axis < 0 ? axis + static_cast<std::ptrdiff_t>(rank) : axis);
    index s = 1;
    for (index i = a + 1; i < rank; ++i) s *= extents[i];
    return s;
  }
};

/// True for every `shape<...>`.
template <class S>
inline constexpr bool is_shape = false;
template <index... Extents>
inline constexpr bool is_shape<shape<Extents...>> = true;

}  // namespace gradus
