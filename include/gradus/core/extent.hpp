#pragma once
// The type of extents and element counts, and extents that are known at run time up to a bound.

#include <cstddef>

namespace gradus {

/// Extents and element counts; unsigned, so that a template argument cannot be negative.
using index_t = std::size_t;

namespace detail {
// The largest number of elements of a shape.
inline constexpr index_t most_elements = index_t{1} << 48;
// What a bounded extent in a shape's type adds to its bound. A decimal number, because compilers print it.
inline constexpr index_t bounded_mark = 1'000'000'000'000'000'000;
constexpr bool is_bounded(index_t extent_in_type) {
  return extent_in_type >= bounded_mark && extent_in_type - bounded_mark <= most_elements;
}
constexpr index_t bound_of(index_t extent_in_type) {
  return is_bounded(extent_in_type) ? extent_in_type - bounded_mark : extent_in_type;
}
}  // namespace detail

/// An extent of 1 to N, known at run time: `shape<upto<64>, 784>` has at most 64 rows. Each tensor of that type has its
/// own number of rows. Compiler messages show it as N + 10^18.
template <index_t N>
inline constexpr index_t upto = detail::bounded_mark + N;

}  // namespace gradus
