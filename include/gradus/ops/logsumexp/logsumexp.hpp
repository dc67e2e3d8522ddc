#pragma once
// The logarithm of a row's sum of exponentials: operation, shape rule and gradient.

#include <string_view>
#include <utility>

#include "../../autodiff/apply.hpp"
#include "../../core/config.hpp"
#include "../../core/cost.hpp"
#include "../../core/shape_algebra.hpp"
#include "../permute/rows.hpp"
#include "../reduce/reduce.hpp"

namespace gradus {

namespace op::inline GRADUS_BUILD {

/// log(sum(e^x)) of the last axis. Saves x and, of each row, its maximum and 1 / sum(e^(x - max)): y is rounded, and
/// e^(x - y) would be as far off as y is. Gradient: dx = e^(x - max) / sum dy. Kernels: forward(ctx, matrix, y,
/// statistics, x); backward(ctx, matrix, dx, accumulate, dy, x, statistics).
struct logsumexp {
  static constexpr std::string_view name = "logsumexp";
  static constexpr op_precision precision = op_precision::full;
  static constexpr save_rule saves = save_inputs(0);  // and, as statistics, two numbers of each row
  static constexpr flop_counts flops_per_element{12, 9};

  template <class Call, class X>
  constexpr auto forward(Call how, const X& x) const {
    auto& ctx = how.owner();
    using on_device = kernel<logsumexp, typename X::device>;
    using Y = tensor<typename Call::reduce, reduced_shape<typename X::shape, axes<-1>>, typename X::device>;
    using S = tensor<typename Call::accumulate, shape<rows_of<typename X::shape>, 2>, typename X::device>;
    Y y(ctx, reduced_extents<axes<-1>>(x.extents()));
    return with_optional_statistics<S>(
        how, y, [&](auto* kept) { on_device::forward(ctx, as_matrix(x.extents()), y.data(), kept, x.data()); });
  }
  template <class Saved, class Y, class X>
  constexpr void backward(const Saved& saved, const Y& dy, const gradient_sink<X>& dx) const {
    if (!dx) return;
    auto to = dx.open(dy.owner());
    kernel<logsumexp, typename X::device>::backward(dy.owner(), as_matrix(dx.extents()), to.tensor.data(),
                                                    to.accumulate, dy.data(), input<0>(saved).data(),
                                                    statistics(saved).data());
  }
};

}  // namespace op::inline GRADUS_BUILD

/// log(sum(e^x)) over the given axes, or the last one if none is given, without overflow; -inf where all elements are
/// -inf. Axes that are not the last ones are moved there by a copy.
template <std::ptrdiff_t... Axes, operand X, class Keep = detail::drop_axes>
GRADUS_OF_BUILD constexpr auto logsumexp(X&& x, Keep = {}) {
  using over = std::conditional_t<sizeof...(Axes) == 0, axes<-1>, axes<Axes...>>;
  GRADUS_REQUIRE("logsumexp(x): x needs at least one axis", shape_of<X>::rank >= 1)
  GRADUS_REQUIRE("logsumexp(x): x must have floating-point elements", is_floating<value_of_t<X>>)
  GRADUS_REQUIRE("logsumexp<axes...>(x): x has no such axis, or it is named twice",
                 detail::axes_exist<over, shape_of<X>::rank>)
  return detail::reduce_last<over, detail::keeps<Keep>>(op::logsumexp{}, std::forward<X>(x));
}

}  // namespace gradus
