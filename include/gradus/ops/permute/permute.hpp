#pragma once
// Permutations of axes: operation, shape rule and gradient.

#include <cstddef>
#include <string_view>
#include <utility>

#include "../../autodiff/apply.hpp"
#include "../../core/config.hpp"
#include "../../core/cost.hpp"
#include "../../core/shape_algebra.hpp"

namespace gradus {

namespace op::inline GRADUS_BUILD {

/// Reorders axes: axis i of the output is axis Order[i] of the input. Gradient: the inverse order.
/// Kernel: forward(ctx, to, from, accumulate).
template <index_t... Order>
struct permute {
  static constexpr std::string_view name = "permute";
  static constexpr save_rule saves = save_nothing();

  template <class Call, class X>
  constexpr auto forward(Call how, const X& x) const {
    with_shape<X, permuted_shape<typename X::shape, Order...>> y(how.owner(), permuted_extents<Order...>(x.extents()));
    kernel<permute, typename X::device>::forward(how.owner(), y.view(), x.view(), false);
    return y;
  }
  template <class Saved, class Y, class X>
  constexpr void backward(const Saved&, const Y& dy, const gradient_sink<X>& dx) const {
    if (!dx) return;
    using inverse = typename inverse_of<std::make_index_sequence<sizeof...(Order)>>::type;
    dx.template write_as<typename Y::value_type>(dy.owner(), [&](auto to) {
      kernel<inverse, typename X::device>::forward(dy.owner(), to.view(), dy.view(), to.accumulate);
    });
  }

  /// The axis of the result that is this axis of x.
  static constexpr index_t place_of(index_t axis) {
    index_t at = 0;
    index_t found = 0;
    ((Order == axis ? found = at : found, ++at), ...);
    return found;
  }

 private:
  template <class>
  struct inverse_of;
  template <std::size_t... Is>
  struct inverse_of<std::index_sequence<Is...>> {
    using type = permute<place_of(Is)...>;
  };
};

}  // namespace op::inline GRADUS_BUILD

namespace detail {
template <class S, std::ptrdiff_t... Order>
inline constexpr bool order_names_each_axis_once = is_permutation_of<S, axis_from_front<S::rank>(Order)...>;
}  // namespace detail

/// x with its axes in the given order: `permute<1, 0>(x)` is the transpose of a matrix, [a, b] -> [b, a].
template <std::ptrdiff_t... Order, operand X>
GRADUS_OF_BUILD constexpr auto permute(X&& x) {
  GRADUS_REQUIRE("permute<order...>(x): the order must name each axis of x once",
                 detail::order_names_each_axis_once<shape_of<X>, Order...>)
  return apply(op::permute<detail::axis_from_front<shape_of<X>::rank>(Order)...>{}, std::forward<X>(x));
}

}  // namespace gradus
