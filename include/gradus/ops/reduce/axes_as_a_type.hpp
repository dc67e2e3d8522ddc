#pragma once
// Another spelling of reductions, `sum<axes<0, 2>>(x)` and `sum<axes<1>, true>(x)`, until 0.2.

#include <cstddef>
#include <type_traits>
#include <utility>

#include "../../core/config.hpp"
#include "../../core/shape_algebra.hpp"
#include "../logsumexp/logsumexp.hpp"
#include "../prod/prod.hpp"
#include "deviation.hpp"
#include "reduce.hpp"

namespace gradus {

namespace detail {
template <class T>
inline constexpr bool is_axes = false;
template <std::ptrdiff_t... Axes>
inline constexpr bool is_axes<axes<Axes...>> = true;
}  // namespace detail

#define GRADUS_REDUCES_AXES(function)                                                                        \
  template <class Axes, bool Keep = false, operand X>                                                        \
    requires detail::is_axes<Axes>                                                                           \
  GRADUS_OF_BUILD constexpr auto function(X&& x) {                                                           \
    return [&]<std::ptrdiff_t... A>(axes<A...>) {                                                            \
      return function<A...>(std::forward<X>(x), std::conditional_t<Keep, keep_axes_t, detail::drop_axes>{}); \
    }(Axes{});                                                                                               \
  }
GRADUS_REDUCES_AXES(sum)
GRADUS_REDUCES_AXES(mean)
GRADUS_REDUCES_AXES(max)
GRADUS_REDUCES_AXES(min)
GRADUS_REDUCES_AXES(argmax)
GRADUS_REDUCES_AXES(argmin)
GRADUS_REDUCES_AXES(variance)
GRADUS_REDUCES_AXES(standard_deviation)
GRADUS_REDUCES_AXES(prod)
#undef GRADUS_REDUCES_AXES
template <class Axes, bool Keep = false, operand X>
  requires detail::is_axes<Axes>
GRADUS_OF_BUILD constexpr auto logsumexp(X&& x) {  // logsumexp<>(x) is over the last axis, not over all
  return detail::reduce_last<Axes, Keep>(op::logsumexp{}, std::forward<X>(x));
}

}  // namespace gradus
