#pragma once
// Shapes as types: extents known at compile time.

#include <array>
#include <cstddef>
#include <initializer_list>
#include <utility>

#include "extent.hpp"

namespace gradus {

namespace detail {
// The product of extents, or 0 if it is 2^48 or more.
constexpr index_t checked_product(std::initializer_list<index_t> extents) {
  index_t product = 1;
  for (const index_t e : extents) {
    if (e == 0 || product > (index_t{1} << 48) / e) return 0;
    product *= e;
  }
  return product;
}
}  // namespace detail

/// The extents of a tensor, outermost first, as a type: `shape<2, 3>` has 2 rows and 3 columns; `shape<>` is a scalar.
template <index_t... Extents>
struct shape {
  static_assert(((Extents > 0) && ...), "every extent of a shape must be at least 1");
  static_assert(((Extents != dyn) && ...), "run-time extents (dyn) are reserved, not supported yet");

  static_assert(detail::checked_product({Extents...}) > 0 || !((Extents > 0) && ...),
                "a shape of more than 2^48 elements");

  static constexpr index_t rank = sizeof...(Extents);
  static constexpr index_t size = detail::checked_product({Extents...});  ///< number of elements
  static constexpr std::array<index_t, rank> extents{Extents...};

  /// Extent of `axis`, counted from the front when >= 0 and from the back when negative.
  static constexpr index_t extent(std::ptrdiff_t axis) {
    return extents[static_cast<index_t>(axis < 0 ? axis + static_cast<std::ptrdiff_t>(rank) : axis)];
  }
  /// Elements between neighbours along `axis` in row-major order.
  static constexpr index_t stride(std::ptrdiff_t axis) {
    index_t a = static_cast<index_t>(axis < 0 ? axis + static_cast<std::ptrdiff_t>(rank) : axis);
    index_t s = 1;
    for (index_t i = a + 1; i < rank; ++i) s *= extents[i];
    return s;
  }
};

/// True for the extents of a matrix or a batch of them: two axes, or more if at least two extents exceed 1.
/// Initialisers and weight decay apply to matrices. A bias [channels, 1, 1] is a vector, weights [1, n] are a matrix.
constexpr bool is_matrix(std::initializer_list<index_t> extents) {
  std::size_t longer = 0;
  for (const index_t e : extents) longer += e > 1 ? 1 : 0;
  return extents.size() == 2 || longer >= 2;
}

/// True for every `shape<...>`.
template <class S>
inline constexpr bool is_shape = false;
template <index_t... Extents>
inline constexpr bool is_shape<shape<Extents...>> = true;

}  // namespace gradus
