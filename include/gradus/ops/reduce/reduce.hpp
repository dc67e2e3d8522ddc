#pragma once
// Reductions over any axes: sum, mean, max, min, argmax, argmin, variance. Without axes, over all.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>

#include "../../autodiff/apply.hpp"
#include "../../core/config.hpp"
#include "../../core/cost.hpp"
#include "../../core/shape_algebra.hpp"

namespace gradus {

namespace detail {
// The result type of sums and means: 64 bits for integers, as in PyTorch.
template <class Call, class X>
using reduced_type = std::conditional_t<is_floating<typename X::value_type>, typename Call::reduce, std::int64_t>;
// Elements of a result of reducing `of`, in the shape that keeps the reduced axes as 1.
template <class Axes, class X, class T, class E>
GRADUS_OF_BUILD constexpr auto with_kept_axes(T* data, const E& of) {
  return view<T, reduced_shape<type_of_extents<E>, Axes, true>, typename X::device>(data,
                                                                                    reduced_extents<Axes, true>(of));
}
}  // namespace detail

namespace op::inline GRADUS_BUILD {

using gradus::detail::reduced_type;
using gradus::detail::with_kept_axes;

/// Sum or mean. Saves nothing: the gradient is dy (divided by the count for the mean), repeated along the reduced axes.
/// Kernels: forward(ctx, y, x), backward(ctx, dx, accumulate, dy); views have the shape that keeps axes as 1.
template <class Axes, bool Keep, bool Mean>
struct sum {
  static constexpr std::string_view name = Mean ? "mean" : "sum";
  static constexpr op_precision precision = op_precision::full;
  static constexpr save_rule saves = save_nothing();
  static constexpr flop_counts flops_per_element{1, Mean ? 1 : 0};

  template <class Call, class X>
  constexpr auto forward(Call how, const X& x) const {
    using Y = tensor<reduced_type<Call, X>, reduced_shape<typename X::shape, Axes, Keep>, typename X::device>;
    Y y(how.owner(), reduced_extents<Axes, Keep>(x.extents()));
    kernel<sum, typename X::device>::forward(how.owner(), with_kept_axes<Axes, X>(y.data(), x.extents()), x.view());
    return y;
  }
  template <class Saved, class Y, class X>
  constexpr void backward(const Saved&, const Y& dy, const gradient_sink<X>& dx) const {
    if constexpr (is_floating<typename X::value_type>) {
      if (!dx) return;
      auto to = dx.open(dy.owner());
      kernel<sum, typename X::device>::backward(dy.owner(), to.view(), to.accumulate,
                                                with_kept_axes<Axes, X>(dy.data(), dx.extents()));
    }
  }
};

/// Largest or smallest element. Saves its place (the first, if several are equal), which gets the gradient.
/// Kernels: forward(ctx, y, at, x), where y or at may be null; backward(ctx, dx, dy, at), which adds.
template <class Axes, bool Keep, bool Largest>
struct extremum {
  static constexpr std::string_view name = Largest ? "max" : "min";
  static constexpr save_rule saves = save_nothing();  // but the places, as statistics
  static constexpr flop_counts flops_per_element{1, 0};

  template <class Call, class X>
  constexpr auto forward(Call how, const X& x) const {
    auto& ctx = how.owner();
    using Y = with_shape<X, reduced_shape<typename X::shape, Axes, Keep>>;
    using places = tensor<std::int32_t, reduced_shape<typename X::shape, Axes, true>, typename X::device>;
    Y y(ctx, reduced_extents<Axes, Keep>(x.extents()));
    const auto run = [&](std::int32_t* at) {
      kernel<extremum, typename X::device>::forward(ctx, with_kept_axes<Axes, X>(y.data(), x.extents()),
                                                    with_kept_axes<Axes, X>(at, x.extents()), x.view());
    };
    if constexpr (is_floating<typename X::value_type>) {
      return with_optional_statistics<places>(how, y, run, reduced_extents<Axes, true>(x.extents()));
    } else {
      run(nullptr);
      return y;
    }
  }
  template <class Saved, class Y, class X>
  constexpr void backward(const Saved& saved, const Y& dy, const gradient_sink<X>& dx) const {
    if constexpr (is_floating<typename X::value_type>) {
      if (!dx) return;
      auto to = dx.open(dy.owner());
      if (!to.accumulate) device_access<typename X::device>::zero(dy.owner(), to.tensor.data(), X::bytes);
      kernel<extremum, typename X::device>::backward(
          dy.owner(), to.view(), with_kept_axes<Axes, X>(dy.data(), dx.extents()), statistics(saved).view());
    }
  }
};

/// Index of the first largest or smallest element, row-major over the reduced axes. Kernel: extremum's.
template <class Axes, bool Keep, bool Largest>
struct place_of_extremum {
  static constexpr std::string_view name = Largest ? "argmax" : "argmin";
  static constexpr save_rule saves = save_nothing();
  static constexpr flop_counts flops_per_element{1, 0};

  template <class X>
  using output_of = tensor<std::int32_t, reduced_shape<typename X::shape, Axes, Keep>, typename X::device>;

  template <class Call, class X>
  constexpr auto forward(Call how, const X& x) const {
    output_of<X> found(how.owner(), reduced_extents<Axes, Keep>(x.extents()));
    typename X::value_type* const no_values = nullptr;
    kernel<extremum<Axes, Keep, Largest>, typename X::device>::forward(
        how.owner(), with_kept_axes<Axes, X>(no_values, x.extents()),
        with_kept_axes<Axes, X>(found.data(), x.extents()), x.view());
    return found;
  }
  template <class... Ignored>
  constexpr void backward(const Ignored&...) const {}
};

/// Mean squared difference from the mean (divided by the count), in two passes. Saves x, and the means as statistics.
/// Gradient: dx = dy * 2 / count * (x - mean).
/// Kernels: forward(ctx, y, mean, x), backward(ctx, dx, accumulate, dy, x, mean).
template <class Axes, bool Keep>
struct variance {
  static constexpr std::string_view name = "variance";
  static constexpr op_precision precision = op_precision::full;
  static constexpr save_rule saves = save_inputs(0);
  static constexpr flop_counts flops_per_element{4, 3};

  template <class Call, class X>
  constexpr auto forward(Call how, const X& x) const {
    using Y = tensor<reduced_type<Call, X>, reduced_shape<typename X::shape, Axes, Keep>, typename X::device>;
    using means =
        tensor<compute_type<typename X::value_type>, reduced_shape<typename X::shape, Axes, true>, typename X::device>;
    auto& ctx = how.owner();
    Y y(ctx, reduced_extents<Axes, Keep>(x.extents()));
    means mean(ctx, reduced_extents<Axes, true>(x.extents()),
               Call::saves_statistics ? category::activation : category::temporary);
    kernel<variance, typename X::device>::forward(ctx, with_kept_axes<Axes, X>(y.data(), x.extents()), mean.view(),
                                                  x.view());
    if constexpr (Call::saves_statistics) return with_statistics<Y, means>{std::move(y), std::move(mean)};
    else return y;
  }
  template <class Saved, class Y, class X>
  constexpr void backward(const Saved& saved, const Y& dy, const gradient_sink<X>& dx) const {
    if (!dx) return;
    auto to = dx.open(dy.owner());
    kernel<variance, typename X::device>::backward(dy.owner(), to.view(), to.accumulate,
                                                   with_kept_axes<Axes, X>(dy.data(), dx.extents()),
                                                   input<0>(saved).view(), statistics(saved).view());
  }
};

}  // namespace op::inline GRADUS_BUILD

/// Passed after the operand, keeps each reduced axis as one of extent 1: `sum<1>(x, keep_axes)` of [a, b] is [a, 1].
struct keep_axes_t {};
inline constexpr keep_axes_t keep_axes{};

namespace detail {
struct drop_axes {};
template <class Keep>
inline constexpr bool keeps = std::is_same_v<Keep, keep_axes_t>;
template <class... SecondArgument>
inline constexpr bool axes_are_template_arguments =
    ((keeps<SecondArgument> || std::is_same_v<SecondArgument, drop_axes>)&&...);
template <class Axes, index_t Rank>
inline constexpr bool axes_exist = Axes::valid(Rank) && Axes::different(Rank);
template <class T>
inline constexpr bool has_floating_elements = is_floating<T>;

// Applies a reduction over the axes, if x has them.
template <class Axes, class Keep, class Op, class X>
GRADUS_OF_BUILD constexpr auto reduce(const Op& op, X&& x) {
  GRADUS_REQUIRE("sum<axes...>(x) and other reductions: axes are template arguments, as in sum<0, -1>(x, keep_axes)",
                 detail::axes_are_template_arguments<Keep>)
  GRADUS_REQUIRE("sum<axes...>(x) and other reductions: x has no such axis, or it is named twice",
                 detail::axes_exist<Axes, shape_of<X>::rank>)
  return apply(op, std::forward<X>(x));
}
}  // namespace detail

/// Sum over the given axes, which may count from the back; over all if none is given: `sum<0, 2>(x)` of [a, b, c] is
/// [b]; `sum<1>(x, keep_axes)` keeps the axis as 1. The sum of integers, bool among them, is an std::int64_t.
template <std::ptrdiff_t... Axes, operand X, class Keep = detail::drop_axes>
GRADUS_OF_BUILD constexpr auto sum(X&& x, Keep = {}) {
  return detail::reduce<axes<Axes...>, Keep>(op::sum<axes<Axes...>, detail::keeps<Keep>, false>{}, std::forward<X>(x));
}
/// Mean over the given axes.
template <std::ptrdiff_t... Axes, operand X, class Keep = detail::drop_axes>
GRADUS_OF_BUILD constexpr auto mean(X&& x, Keep = {}) {
  GRADUS_REQUIRE("mean(x): x must have floating-point elements", detail::has_floating_elements<value_of_t<X>>)
  return detail::reduce<axes<Axes...>, Keep>(op::sum<axes<Axes...>, detail::keeps<Keep>, true>{}, std::forward<X>(x));
}
/// Largest element over the given axes; NaN if there is one. The first of equal ones gets the gradient.
template <std::ptrdiff_t... Axes, operand X, class Keep = detail::drop_axes>
GRADUS_OF_BUILD constexpr auto max(X&& x, Keep = {}) {
  return detail::reduce<axes<Axes...>, Keep>(op::extremum<axes<Axes...>, detail::keeps<Keep>, true>{},
                                             std::forward<X>(x));
}
/// Smallest element over the given axes; NaN if there is one. The first of equal ones gets the gradient.
template <std::ptrdiff_t... Axes, operand X, class Keep = detail::drop_axes>
GRADUS_OF_BUILD constexpr auto min(X&& x, Keep = {}) {
  return detail::reduce<axes<Axes...>, Keep>(op::extremum<axes<Axes...>, detail::keeps<Keep>, false>{},
                                             std::forward<X>(x));
}
/// Row-major index (std::int32_t) of the first largest element over the given axes, or of the first NaN. No gradient.
template <std::ptrdiff_t... Axes, operand X, class Keep = detail::drop_axes>
GRADUS_OF_BUILD constexpr auto argmax(X&& x, Keep = {}) {
  return detail::reduce<axes<Axes...>, Keep>(op::place_of_extremum<axes<Axes...>, detail::keeps<Keep>, true>{},
                                             std::forward<X>(x));
}
/// Row-major index (std::int32_t) of the first smallest element over the given axes, or of the first NaN. No gradient.
template <std::ptrdiff_t... Axes, operand X, class Keep = detail::drop_axes>
GRADUS_OF_BUILD constexpr auto argmin(X&& x, Keep = {}) {
  return detail::reduce<axes<Axes...>, Keep>(op::place_of_extremum<axes<Axes...>, detail::keeps<Keep>, false>{},
                                             std::forward<X>(x));
}
/// Population variance over the given axes: the mean squared difference from the mean.
template <std::ptrdiff_t... Axes, operand X, class Keep = detail::drop_axes>
GRADUS_OF_BUILD constexpr auto variance(X&& x, Keep = {}) {
  GRADUS_REQUIRE("variance(x): x must have floating-point elements", detail::has_floating_elements<value_of_t<X>>)
  return detail::reduce<axes<Axes...>, Keep>(op::variance<axes<Axes...>, detail::keeps<Keep>>{}, std::forward<X>(x));
}

}  // namespace gradus
