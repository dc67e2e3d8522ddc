#pragma once
// tril and triu: matrices without the elements above or below a diagonal, composed of comparisons and where.

#include <array>
#include <cstddef>
#include <utility>

#include "../../core/config.hpp"
#include "../../core/shape_algebra.hpp"
#include "../cumsum/numbers.hpp"
#include "../elementwise/selection.hpp"
#include "../reshape/reshape.hpp"

namespace gradus {

namespace detail {
template <index_t Rank>
inline constexpr bool has_rows_and_columns = Rank >= 2;

// How far right of the main diagonal each element of x's matrices is: [rows, columns].
template <class X>
GRADUS_OF_BUILD constexpr auto columns_from_diagonal(const X& x) {
  using s = typename X::shape;
  const auto numbers_along = [&]<index_t N>(shape<N>, std::ptrdiff_t axis) {
    return numbers<N>(x.owner(), extents_from<shape<N>>([&] { return std::array<index_t, 1>{x.extent(axis)}; }));
  };
  const auto rows = numbers_along(shape<s::extent_in_type(-2)>{}, -2);
  return numbers_along(shape<s::extent_in_type(-1)>{}, -1) - reshape<s::extent_in_type(-2), 1>(rows);
}
}  // namespace detail

/// The matrices of the last two axes of x with 0 above the diagonal number Diagonal (0: the main one, 1: right of it).
template <std::ptrdiff_t Diagonal = 0, operand X>
GRADUS_OF_BUILD constexpr auto tril(X&& x) {
  GRADUS_REQUIRE("tril<diagonal>(x): x needs at least two axes", detail::has_rows_and_columns<shape_of<X>::rank>)
  return where(detail::columns_from_diagonal(plain(x)) <= Diagonal, std::forward<X>(x), 0);
}
/// The matrices of the last two axes of x with 0 below the diagonal number Diagonal (0: the main one, 1: right of it).
template <std::ptrdiff_t Diagonal = 0, operand X>
GRADUS_OF_BUILD constexpr auto triu(X&& x) {
  GRADUS_REQUIRE("triu<diagonal>(x): x needs at least two axes", detail::has_rows_and_columns<shape_of<X>::rank>)
  return where(detail::columns_from_diagonal(plain(x)) >= Diagonal, std::forward<X>(x), 0);
}

}  // namespace gradus
