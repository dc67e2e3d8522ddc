#pragma once
// The standard deviation: the root of the variance, with a gradient of 0 where all elements are equal.

#include <string_view>
#include <utility>

#include "../../core/config.hpp"
#include "../../core/math.hpp"
#include "../elementwise/elementwise.hpp"
#include "reduce.hpp"

namespace gradus {

namespace functor {

// clang-format off
/// Square root, whose derivative at 0 is 0.
struct deviation { static constexpr std::string_view name = "deviation";
  static constexpr bool floating_only = true;
  template <class T> GRADUS_HD T operator()(T x) const { using math::sqrt; return sqrt(x); }
  template <class T> GRADUS_HD T derivative_from_output(T y) const {
    using math::select; return select(y == T(0), T(0), T(0.5) / y);
  } };
// clang-format on

}  // namespace functor

/// Standard deviation of the population over the given axes: the root of variance(x). Its gradient is 0 where it is 0.
template <std::ptrdiff_t... Axes, operand X, class Keep = detail::drop_axes>
GRADUS_OF_BUILD constexpr auto standard_deviation(X&& x, Keep how = {}) {
  GRADUS_REQUIRE("standard_deviation(x): x must have floating-point elements",
                 detail::has_floating_elements<value_of_t<X>>)
  GRADUS_REQUIRE("standard_deviation<axes...>(x): x has no such axis, or it is named twice",
                 detail::axes_exist<axes<Axes...>, shape_of<X>::rank>)
  return apply(op::map<functor::deviation>{}, variance<Axes...>(std::forward<X>(x), how));
}

}  // namespace gradus
