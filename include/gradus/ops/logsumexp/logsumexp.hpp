#pragma once
// The logarithm of a row's sum of exponentials: operation, shape rule and gradient.

#include <string_view>
#include <utility>

#include "../../autodiff/apply.hpp"
#include "../../core/config.hpp"
#include "../../core/cost.hpp"
#include "../../core/shape_algebra.hpp"

namespace gradus {

namespace op::inline GRADUS_BUILD {

/// log(sum(e^x)) of the last axis. Saves x and the output y. Gradient: dx = e^(x - y) dy. Kernels: forward(ctx, y, x);
/// backward(ctx, dx, accumulate, dy, x, y).
struct logsumexp {
  static constexpr std::string_view name = "logsumexp";
  static constexpr op_precision precision = op_precision::full;
  static constexpr save_rule saves = save_inputs(0) | save_output();

  template <class X>
  static constexpr cost forward_cost() {
    return {12 * X::size, X::bytes, X::bytes / X::shape::extent(-1)};
  }
  template <class X>
  static constexpr cost backward_cost() {
    return {12 * X::size, X::bytes, X::bytes};
  }

  template <class Call, class X>
  constexpr auto forward(Call how, const X& x) const {
    auto& ctx = how.owner();
    using S = typename X::shape;
    tensor<typename Call::reduce, reduced_shape<S, axes<-1>>, typename X::device> y(ctx);
    kernel<logsumexp, typename X::device>::forward(ctx, y.view(), x.view());
    return y;
  }
  template <class Saved, class Y, class X>
  constexpr void backward(const Saved& saved, const Y& dy, const gradient_sink<X>& dx) const {
    if (!dx) return;
    auto to = dx.open(dy.owner());
    kernel<logsumexp, typename X::device>::backward(dy.owner(), to.view(), to.accumulate, dy.view(),
                                                    input<0>(saved).view(), output(saved).view());
  }
};

}  // namespace op::inline GRADUS_BUILD

/// log(sum(e^x)) along the last axis, without overflow: [..., n] -> [...]. -inf for a row of -inf.
template <operand X>
GRADUS_OF_BUILD constexpr auto logsumexp(X&& x) {
  static_assert(shape_of<X>::rank >= 1, "logsumexp(x): x needs at least one axis");
  static_assert(is_floating<value_of_t<X>>, "logsumexp(x): x must have floating-point elements");
  if constexpr (shape_of<X>::rank >= 1 && is_floating<value_of_t<X>>) return apply(op::logsumexp{}, std::forward<X>(x));
}

}  // namespace gradus
