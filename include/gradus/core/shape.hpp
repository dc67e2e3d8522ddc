#pragma once
// Shapes as types: extents, or their bounds, known at compile time.

#include <array>
#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <utility>

#include "config.hpp"
#include "error.hpp"
#include "extent.hpp"

namespace gradus {

namespace detail {
// The product of extents, or 0 if it is 2^48 or more.
constexpr index_t checked_product(std::initializer_list<index_t> extents) {
  index_t product = 1;
  for (const index_t e : extents) {
    if (e == 0 || product > most_elements / e) return 0;
    product *= e;
  }
  return product;
}
template <index_t N>
constexpr index_t stride_of(const std::array<index_t, N>& extents, index_t axis) {
  index_t stride = 1;
  for (index_t i = axis + 1; i < N; ++i) stride *= extents[i];
  return stride;
}
template <index_t Rank>
constexpr index_t axis_from_front(std::ptrdiff_t axis) {
  return static_cast<index_t>(axis < 0 ? axis + static_cast<std::ptrdiff_t>(Rank) : axis);
}
}  // namespace detail

/// The extents of a tensor, outermost first, as a type: `shape<2, 3>` has 2 rows and 3 columns; `shape<>` is a scalar.
/// Axes may be bounded: see upto. Sizes and extents of the type are then the largest ones.
template <index_t... Extents>
struct shape {
  static_assert(((detail::bound_of(Extents) > 0) && ...), "every extent of a shape must be at least 1");
  static_assert(detail::checked_product({detail::bound_of(Extents)...}) > 0 ||
                    !((detail::bound_of(Extents) > 0) && ...),
                "a shape of more than 2^48 elements");

  static constexpr index_t rank = sizeof...(Extents);
  static constexpr index_t bounded_axes = (index_t{detail::is_bounded(Extents)} + ... + index_t{0});
  static constexpr bool bounded = bounded_axes > 0;  ///< some extent is known only at run time
  static constexpr index_t size = detail::checked_product({detail::bound_of(Extents)...});  ///< number of elements
  static constexpr std::array<index_t, rank> extents{detail::bound_of(Extents)...};
  static constexpr std::array<index_t, rank> in_type{Extents...};  ///< upto<N> for bounded axes

  /// Extent of `axis`, counted from the front when >= 0 and from the back when negative.
  static constexpr index_t extent(std::ptrdiff_t axis) { return extents[detail::axis_from_front<rank>(axis)]; }
  /// Extent of `axis` in the type: upto<N> for a bounded axis.
  static constexpr index_t extent_in_type(std::ptrdiff_t axis) { return in_type[detail::axis_from_front<rank>(axis)]; }
  /// Elements between neighbours along `axis` in row-major order.
  static constexpr index_t stride(std::ptrdiff_t axis) {
    return detail::stride_of(extents, detail::axis_from_front<rank>(axis));
  }
};

template <class S>
class bounded_extents;

/// The extents of one tensor of shape S, as a value with the members of a shape: S itself if they are all in its type.
template <class S>
using extents_of = std::conditional_t<S::bounded, bounded_extents<S>, S>;

namespace detail {
template <class Extents>
struct shape_of_extents {
  using type = Extents;
};
template <class S>
struct shape_of_extents<bounded_extents<S>> {
  using type = S;
};
}  // namespace detail
/// The shape whose tensors have extents of this type.
template <class Extents>
using type_of_extents = typename detail::shape_of_extents<Extents>::type;

namespace detail {
[[noreturn]] GRADUS_NOINLINE inline void fail_extent(index_t axis, index_t extent, index_t bound) {
  const std::string most = std::to_string(bound);
  throw error("axis " + std::to_string(axis) + " is upto<" + most + ">: it has 1 to " + most + " entries, not " +
              std::to_string(static_cast<std::ptrdiff_t>(extent)));
}
// Named in compiler messages of operations that need an axis with a number.
template <index_t ExtentInType>
inline constexpr bool axis_is_not_bounded = !is_bounded(ExtentInType);
}  // namespace detail

/// The extents of one tensor of the bounded shape S.
template <class S>
class bounded_extents {
 public:
  static constexpr index_t rank = S::rank;
  static constexpr bool bounded = true;
  std::array<index_t, rank> extents{};
  index_t size = 0;  ///< number of the tensor's elements

  /// The extents of an empty tensor: all 0.
  constexpr bounded_extents() = default;
  /// One extent for each bounded axis, outermost first. Throws error if one is 0 or above its bound.
  template <std::integral... N>
    requires(sizeof...(N) == S::bounded_axes)
  constexpr bounded_extents(N... there) : extents(S::extents) {  // NOLINT(google-explicit-constructor)
    index_t axis = 0;
    const auto set = [&](index_t extent) {
      while (!detail::is_bounded(S::in_type[axis])) ++axis;
      if (extent == 0 || extent > S::extents[axis]) detail::fail_extent(axis, extent, S::extents[axis]);
      extents[axis++] = extent;
    };
    (set(static_cast<index_t>(there)), ...);
    size = elements();
  }
  /// All extents, unchecked: the result of a shape rule.
  constexpr explicit bounded_extents(const std::array<index_t, rank>& all) : extents(all), size(elements()) {}

  constexpr index_t extent(std::ptrdiff_t axis) const { return extents[detail::axis_from_front<rank>(axis)]; }
  constexpr index_t stride(std::ptrdiff_t axis) const {
    return detail::stride_of(extents, detail::axis_from_front<rank>(axis));
  }
  friend constexpr bool operator==(const bounded_extents&, const bounded_extents&) = default;

 private:
  constexpr index_t elements() const {
    index_t n = 1;
    for (const index_t e : extents) n *= e;
    return n;
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
