#pragma once
// tril and triu: matrices without the elements above or below a diagonal.

#include <cstddef>
#include <string_view>
#include <utility>

#include "../../autodiff/apply.hpp"
#include "../../core/config.hpp"
#include "../../core/cost.hpp"
#include "../../core/shape_algebra.hpp"

namespace gradus {

/// `matrices` of [rows, columns], and the diagonal that is kept, columns to the right of the main one.
struct triangle_layout {
  index_t matrices, rows, columns;
  std::ptrdiff_t diagonal;
};

namespace op::inline GRADUS_BUILD {

/// Keeps the elements on a diagonal and above it (Upper) or below; the others are 0. Gradient: keeps the same ones.
/// Kernel: forward(ctx, y, x, layout, accumulate).
template <bool Upper>
struct triangle {
  std::ptrdiff_t diagonal;

  static constexpr std::string_view name = Upper ? "triu" : "tril";
  static constexpr save_rule saves = save_nothing();

  template <class Call, class X>
  constexpr auto forward(Call how, const X& x) const {
    X y(how.owner(), x.extents());
    keep(how.owner(), y, x, false);
    return y;
  }
  template <class Saved, class Y, class X>
  constexpr void backward(const Saved&, const Y& dy, const gradient_sink<X>& dx) const {
    if constexpr (is_floating<typename X::value_type>) {
      if (!dx) return;
      dx.template write_as<typename Y::value_type>(dy.owner(),
                                                   [&](auto to) { keep(dy.owner(), to.tensor, dy, to.accumulate); });
    }
  }

 private:
  template <class X>
  constexpr void keep(context<typename X::device>& ctx, X& y, const X& x, bool accumulate) const {
    const index_t rows = x.extent(-2), columns = x.extent(-1), size = x.extents().size;
    kernel<triangle, typename X::device>::forward(
        ctx, y.data(), x.data(), triangle_layout{size / (rows * columns), rows, columns, diagonal}, accumulate);
  }
};

}  // namespace op::inline GRADUS_BUILD

namespace detail {
template <index_t Rank>
inline constexpr bool has_rows_and_columns = Rank >= 2;
}  // namespace detail

/// The matrices of the last two axes of x with 0 above the diagonal number Diagonal (0: the main one, 1: right of it).
template <std::ptrdiff_t Diagonal = 0, operand X>
GRADUS_OF_BUILD constexpr auto tril(X&& x) {
  GRADUS_REQUIRE("tril<diagonal>(x): x needs at least two axes", detail::has_rows_and_columns<shape_of<X>::rank>)
  return apply(op::triangle<false>{Diagonal}, std::forward<X>(x));
}
/// The matrices of the last two axes of x with 0 below the diagonal number Diagonal (0: the main one, 1: right of it).
template <std::ptrdiff_t Diagonal = 0, operand X>
GRADUS_OF_BUILD constexpr auto triu(X&& x) {
  GRADUS_REQUIRE("triu<diagonal>(x): x needs at least two axes", detail::has_rows_and_columns<shape_of<X>::rank>)
  return apply(op::triangle<true>{Diagonal}, std::forward<X>(x));
}

}  // namespace gradus
