#pragma once
// Repeats a tensor along axes of one entry or new axes in front, by the elementwise kernel; its gradient is their sum.

#include <string_view>
#include <utility>

#include "../../autodiff/apply.hpp"
#include "../../core/config.hpp"
#include "../../core/cost.hpp"
#include "../../core/shape_algebra.hpp"
#include "../broadcast/broadcast.hpp"
#include "../elementwise/elementwise.hpp"
#include "../reshape/reshape.hpp"

namespace gradus {

namespace functor {
/// x itself.
struct identity {
  static constexpr std::string_view name = "identity";
  static constexpr bool linear = true;
  static constexpr bool sum = true;
  template <class T>
  GRADUS_HD constexpr T operator()(T x) const {
    return x;
  }
};
}  // namespace functor

namespace detail {
template <class From, class To>
constexpr bool bounds_come_from() {
  for (index_t i = 0; i < To::rank; ++i)
    if (is_bounded(To::in_type[To::rank - 1 - i]) && padded_in_type<From>(i) == 1) return false;
  return true;
}
template <class ShapeOfX, class Shape>
inline constexpr bool has_the_bounds_of = bounds_come_from<ShapeOfX, Shape>();
}  // namespace detail

namespace op::inline GRADUS_BUILD {

/// Repeats x to a shape that it broadcasts to. Gradient: the sum over the repeated axes.
template <class Shape>
struct expand {
  [[no_unique_address]] extents_of<Shape> extents;  ///< of the result

  static constexpr std::string_view name = "expand";
  static constexpr save_rule saves = save_nothing();
  static constexpr flop_counts flops_per_element{0, 1};

  template <class X>
  using output_of = with_shape<X, Shape>;

  template <class Call, class X>
  constexpr auto forward(Call how, const X& x) const {
    output_of<X> y(how.owner(), extents);
    kernel<map<functor::identity>, typename X::device>::forward(how.owner(), functor::identity{}, y.view(), x.view());
    return y;
  }
  template <class Saved, class Y, class X>
  constexpr void backward(const Saved&, const Y& dy, const gradient_sink<X>& dx) const {
    if constexpr (is_floating<typename X::value_type>) {
      if (!dx) return;
      auto to = dx.open(dy.owner());
      kernel<sum_to, typename X::device>::forward(dy.owner(), to.view(), dy.view(), to.accumulate);
    }
  }
};

}  // namespace op::inline GRADUS_BUILD

namespace detail {
template <class From, class To>
constexpr bool broadcasts_to() {
  if constexpr (!can_broadcast<From, To>) return false;
  else return std::is_same_v<broadcast_shape<From, To>, To>;
}
template <class From, class To>
inline constexpr bool shape_broadcasts_to = broadcasts_to<From, To>();
// The extents of x where they are bounded, and otherwise those in the type To.
template <class To, class Extents>
constexpr extents_of<To> expanded_extents(const Extents& x) {
  return extents_from<To>([&] {
    auto all = To::extents;
    for (index_t i = 0; i < To::rank; ++i)
      if (is_bounded(To::in_type[i])) all[i] = padded_extent(x, To::rank - 1 - i);
    return all;
  });
}
}  // namespace detail

/// x repeated to the shape [Extents...]: an axis of one entry, or one that x lacks in front, is repeated. Copies;
/// elementwise operations broadcast without it.
template <index_t... Extents, operand X>
GRADUS_OF_BUILD constexpr auto expand(X&& x) {
  using to = shape<Extents...>;
  GRADUS_REQUIRE(
      "expand<extents...>(x): the shape of x must broadcast to the new one: each extent of x is 1 or the same",
      detail::shape_broadcasts_to<shape_of<X>, to>)
  GRADUS_REQUIRE(
      "expand<extents...>(x): the bounded axes of the result must be those of x; expand_as(x, y) takes them "
      "from y",
      detail::has_the_bounds_of<shape_of<X>, to>)
  if constexpr (to::size == shape_of<X>::size && to::bounded == shape_of<X>::bounded)
    return reshape<Extents...>(std::forward<X>(x));
  else return apply(op::expand<to>{detail::expanded_extents<to>(plain(x).extents())}, std::forward<X>(x));
}

/// x repeated to the shape of y, and to its extents where y is bounded: a row for each sample of a batch. No gradient
/// flows to y. Throws error if an extent of x is neither 1 nor y's. Copies, as expand() does.
template <operand X, operand Y>
GRADUS_OF_BUILD constexpr auto expand_as(X&& x, const Y& y) {
  using to = shape_of<Y>;
  GRADUS_REQUIRE("expand_as(x, y): the shape of x must broadcast to that of y: each extent of x is 1 or the same",
                 detail::shape_broadcasts_to<shape_of<X>, to>)
  return apply(op::expand<to>{broadcast_extents("expand_as", plain(x).extents(), plain(y).extents())},
               std::forward<X>(x));
}

}  // namespace gradus
