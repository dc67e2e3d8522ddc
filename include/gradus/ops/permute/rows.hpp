#pragma once
// Functions of any axes by operations on the last one: the axes move to the back, where reduced ones become one.

#include <array>
#include <cstddef>
#include <utility>

#include "../../autodiff/apply.hpp"
#include "../../core/config.hpp"
#include "../../core/shape_algebra.hpp"
#include "../reshape/reshape.hpp"
#include "permute.hpp"

namespace gradus::detail {

/// The order of axes that puts the axes in Axes last, and what they become.
template <class S, class Axes>
struct reduced_last {
  static constexpr std::array<index_t, S::rank> order = [] {
    std::array<index_t, S::rank> to{};
    index_t n = 0;
    for (index_t i = 0; i < S::rank; ++i)
      if (!Axes::contains(i, S::rank)) to[n++] = i;
    for (index_t i = 0; i < S::rank; ++i)
      if (Axes::contains(i, S::rank)) to[n++] = i;
    return to;
  }();
  static constexpr bool in_order = [] {
    for (index_t i = 0; i < S::rank; ++i)
      if (order[i] != i) return false;
    return true;
  }();
  using outputs = reduced_shape<S, Axes>;
  /// Elements that become one, in the type.
  static constexpr index_t count = [] {
    index_t n = 1;
    bool bounded = false;
    for (index_t i = 0; i < S::rank; ++i)
      if (Axes::contains(i, S::rank)) n *= S::extents[i], bounded = bounded || is_bounded(S::in_type[i]);
    return bounded ? bounded_mark + n : n;
  }();
  static constexpr bool is_last_axis = in_order && outputs::rank + 1 == S::rank;
};

/// x with the reduced axes as one, the last: [outputs..., count].
template <class Axes, class X>
GRADUS_OF_BUILD constexpr auto with_reduced_last(X&& x) {
  using S = shape_of<X>;
  using rule = reduced_last<S, Axes>;
  using flat = joined_shape<typename rule::outputs, shape<rule::count>>;
  if constexpr (rule::in_order) return apply(op::reshape<flat>{}, std::forward<X>(x));
  else
    return [&]<std::size_t... Is>(std::index_sequence<Is...>) {
      return apply(op::reshape<flat>{}, apply(op::permute<rule::order[Is]...>{}, std::forward<X>(x)));
    }(std::make_index_sequence<S::rank>{});
}

/// Reduces the axes by `op`, which reduces the last axis of its operand; `Keep` keeps them as 1.
template <class Axes, bool Keep, class Op, class X>
GRADUS_OF_BUILD constexpr auto reduce_last(const Op& op, X&& x) {
  using S = shape_of<X>;
  auto y = [&] {
    if constexpr (reduced_last<S, Axes>::is_last_axis) return apply(op, std::forward<X>(x));
    else return apply(op, with_reduced_last<Axes>(std::forward<X>(x)));
  }();
  if constexpr (Keep) return apply(op::reshape<reduced_shape<S, Axes, true>>{}, std::move(y));
  else return y;
}

/// The permutation that exchanges an axis and the last one.
template <index_t Axis, std::size_t... Is>
GRADUS_OF_BUILD constexpr auto exchange_with_last(std::index_sequence<Is...>) {
  constexpr auto exchanged = [](index_t i) {
    if (i == Axis) return index_t{sizeof...(Is) - 1};
    return i + 1 == sizeof...(Is) ? Axis : i;
  };
  return op::permute<exchanged(Is)...>{};
}
/// Applies `op`, which works along the last axis, along an axis: exchanges the two before and after.
template <std::ptrdiff_t Axis, class Op, class X>
GRADUS_OF_BUILD constexpr auto apply_along(const Op& op, X&& x) {
  constexpr index_t rank = shape_of<X>::rank, axis = axis_from_front<rank>(Axis);
  if constexpr (axis + 1 == rank) return apply(op, std::forward<X>(x));
  else {
    constexpr auto exchange = exchange_with_last<axis>(std::make_index_sequence<rank>{});
    return apply(exchange, apply(op, apply(exchange, std::forward<X>(x))));
  }
}

}  // namespace gradus::detail
