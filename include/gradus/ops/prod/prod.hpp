#pragma once
// Products over axes: operation, shape rule and gradient.

#include <string_view>
#include <utility>

#include "../../autodiff/apply.hpp"
#include "../../core/config.hpp"
#include "../../core/cost.hpp"
#include "../../core/shape_algebra.hpp"
#include "../comparison/comparison.hpp"
#include "../elementwise/selection.hpp"
#include "../permute/rows.hpp"
#include "../reduce/reduce.hpp"

namespace gradus {

namespace op::inline GRADUS_BUILD {

/// The product of the last axis. Saves x. Gradient of an element: dy times the product of the others, which is y / x
/// only where no element is 0; composed of other operations. Kernel: forward(ctx, matrix, y, x).
struct prod {
  static constexpr std::string_view name = "prod";
  static constexpr op_precision precision = op_precision::full;
  static constexpr save_rule saves = save_inputs(0);
  static constexpr flop_counts flops_per_element{1, 3};

  template <class X>
  using output_of = with_shape<X, reduced_shape<typename X::shape, axes<-1>>>;

  template <class Call, class X>
  constexpr auto forward(Call how, const X& x) const {
    tensor<reduced_type<Call, X>, typename output_of<X>::shape, typename X::device> y(
        how.owner(), reduced_extents<axes<-1>>(x.extents()));
    kernel<prod, typename X::device>::forward(how.owner(), as_matrix(x.extents()), y.data(), x.data());
    return y;
  }
  template <class Saved, class Y, class X>
  constexpr void backward(const Saved& saved, const Y& dy, const gradient_sink<X>& dx) const {
    if constexpr (is_floating<typename X::value_type>) {
      if (!dx) return;
      const auto x = gradus::cast<typename Y::value_type>(input<0>(saved));
      const auto zero = x == 0;
      const auto others = where(zero, 1, x);
      const auto zeros = gradus::sum<-1>(zero, keep_axes);
      const auto grad = apply(reshape<reduced_shape<typename X::shape, axes<-1>, true>>{}, dy) *
                        gradus::detail::reduce_last<axes<-1>, true>(prod{}, others);
      auto of_zeros = where(zeros == 1, grad, 0);  // one after the other, so that a plan has the memory of a step
      auto of_others = where(zeros == 0, grad, 0) / others;
      dx.give(where(zero, std::move(of_zeros), std::move(of_others)));
    }
  }
};

}  // namespace op::inline GRADUS_BUILD

/// Product over the given axes; of integers, `bool` among them, an std::int64_t. Axes that are not the last ones are
/// moved there by a copy. The gradient is right where elements are 0.
template <std::ptrdiff_t... Axes, operand X, class Keep = detail::drop_axes>
GRADUS_OF_BUILD constexpr auto prod(X&& x, Keep = {}) {
  GRADUS_REQUIRE("prod<axes...>(x): x has no such axis, or it is named twice",
                 detail::axes_exist<axes<Axes...>, shape_of<X>::rank>)
  return detail::reduce_last<axes<Axes...>, detail::keeps<Keep>>(op::prod{}, std::forward<X>(x));
}

}  // namespace gradus
