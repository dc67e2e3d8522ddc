#pragma once
// Softmax and its logarithm: operation, shape rule and gradient.

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

/// Softmax of the last axis, or its logarithm. Saves the output. Gradients: dx = y (dy - sum(dy y)); of the logarithm,
/// dx = dy - e^y sum(dy). Kernels: forward(ctx, matrix, y, x), where y may be x; backward(ctx, matrix, dx, accumulate,
/// dy, y).
template <bool Log>
struct softmax {
  static constexpr std::string_view name = Log ? "log_softmax" : "softmax";
  static constexpr op_precision precision = op_precision::full;
  static constexpr save_rule saves = save_output();
  static constexpr flop_counts flops_per_element{14, Log ? 13 : 4};

  template <class Call, class X>
  constexpr auto forward(Call how, X x) const {
    auto& ctx = how.owner();
    const auto extents = x.extents();
    const auto* const from = std::as_const(x).data();
    using Y = tensor<typename Call::reduce, typename X::shape, typename X::device>;
    Y y = place<Y>(ctx, x);
    kernel<softmax, typename X::device>::forward(ctx, as_matrix(extents), y.data(), from);
    return y;
  }
  template <class Saved, class Y, class X>
  constexpr void backward(const Saved& saved, const Y& dy, const gradient_sink<X>& dx) const {
    if (!dx) return;
    auto to = dx.open(dy.owner());
    kernel<softmax, typename X::device>::backward(dy.owner(), as_matrix(dy.extents()), to.tensor.data(), to.accumulate,
                                                  dy.data(), output(saved).data());
  }

 private:
  // Computes in place if x has no other owner.
  template <class Y, class X>
  static constexpr Y place(context<typename X::device>& ctx, X& x) {
    if constexpr (std::is_same_v<X, Y>)
      if (x.unique()) return std::move(x);
    return Y(ctx, x.extents());
  }
};

}  // namespace op::inline GRADUS_BUILD

/// e^x / sum(e^x) along an axis, without overflow. An axis that is not the last one is moved there by a copy, and back.
template <std::ptrdiff_t Axis = -1, operand X>
GRADUS_OF_BUILD constexpr auto softmax(X&& x) {
  GRADUS_REQUIRE("softmax(x): x needs at least one axis", shape_of<X>::rank >= 1)
  GRADUS_REQUIRE("softmax<axis>(x): x has no such axis", detail::axes_exist<axes<Axis>, shape_of<X>::rank>)
  GRADUS_REQUIRE("softmax(x): x must have floating-point elements", is_floating<value_of_t<X>>)
  return detail::apply_along<Axis>(op::softmax<false>{}, std::forward<X>(x));
}
/// x - log(sum(e^x)) along an axis, without overflow; axes as softmax's.
template <std::ptrdiff_t Axis = -1, operand X>
GRADUS_OF_BUILD constexpr auto log_softmax(X&& x) {
  GRADUS_REQUIRE("log_softmax(x): x needs at least one axis", shape_of<X>::rank >= 1)
  GRADUS_REQUIRE("log_softmax<axis>(x): x has no such axis", detail::axes_exist<axes<Axis>, shape_of<X>::rank>)
  GRADUS_REQUIRE("log_softmax(x): x must have floating-point elements", is_floating<value_of_t<X>>)
  return detail::apply_along<Axis>(op::softmax<true>{}, std::forward<X>(x));
}

}  // namespace gradus
