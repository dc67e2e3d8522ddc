#pragma once
// Running sums along an axis: operation, shape rule and gradient.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "../../autodiff/apply.hpp"
#include "../../core/config.hpp"
#include "../../core/cost.hpp"
#include "../../core/shape_algebra.hpp"
#include "../reduce/reduce.hpp"

namespace gradus {

/// How the lines of a tensor along an axis are in memory: `count` elements, `inner` apart, in each of `outer` blocks.
struct axis_lines {
  index_t outer, count, inner;
  bool reverse;  ///< from the last element to the first
};

namespace op::inline GRADUS_BUILD {

/// y[i] = x[0] + ... + x[i] along an axis, which counts from the front. Saves nothing; the gradient is the running sum
/// of dy from the end. Kernel of all axes: forward(ctx, lines, to, accumulate, from).
template <index_t Axis>
struct cumsum {
  static constexpr std::string_view name = "cumsum";
  static constexpr op_precision precision = op_precision::full;
  static constexpr save_rule saves = save_nothing();
  static constexpr flop_counts flops_per_element{1, 1};

  template <class Call, class X>
  constexpr auto forward(Call how, const X& x) const {
    tensor<reduced_type<Call, X>, typename X::shape, typename X::device> y(how.owner(), x.extents());
    kernel<cumsum<0>, typename X::device>::forward(how.owner(), lines_of(x.extents(), false), y.data(), false,
                                                   x.data());
    return y;
  }
  template <class Saved, class Y, class X>
  constexpr void backward(const Saved&, const Y& dy, const gradient_sink<X>& dx) const {
    if constexpr (is_floating<typename X::value_type>) {
      if (!dx) return;
      auto to = dx.open(dy.owner());
      kernel<cumsum<0>, typename X::device>::forward(dy.owner(), lines_of(dy.extents(), true), to.tensor.data(),
                                                     to.accumulate, dy.data());
    }
  }

 private:
  template <class Extents>
  static constexpr axis_lines lines_of(const Extents& of, bool reverse) {
    const index_t count = of.extents[Axis], inner = of.stride(static_cast<std::ptrdiff_t>(Axis));
    return {of.size / (count * inner), count, inner, reverse};
  }
};

}  // namespace op::inline GRADUS_BUILD

/// Running sums along an axis, which may count from the back: y[i] is the sum of x[0] to x[i], added in double
/// precision, on the CPU in this order. The sums of integers, bool among them, are std::int64_t.
template <std::ptrdiff_t Axis, operand X>
GRADUS_OF_BUILD constexpr auto cumsum(X&& x) {
  constexpr index_t rank = shape_of<X>::rank;
  GRADUS_REQUIRE("cumsum<axis>(x): x has no such axis", detail::axes_exist<axes<Axis>, rank>)
  return apply(op::cumsum<detail::axis_from_front<rank>(Axis)>{}, std::forward<X>(x));
}

}  // namespace gradus
