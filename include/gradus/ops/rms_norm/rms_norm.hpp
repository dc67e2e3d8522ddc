#pragma once
// Root mean square normalisation: operation, shape rule and gradient.

#include <string_view>
#include <utility>

#include "../../core/config.hpp"
#include "../layer_norm/layer_norm.hpp"

namespace gradus {

namespace op::inline GRADUS_BUILD {

/// y = x rstd w along the last axis, rstd = 1 / sqrt(mean(x^2) + eps) (Zhang and Sennrich, "Root Mean Square Layer
/// Normalization", 2019). With g = dy w and x^ = x rstd: dx = rstd (g - x^ mean(g x^)), dw = sum dy x^.
struct rms_norm {
  double eps;

  static constexpr std::string_view name = "rms_norm";
  static constexpr op_precision precision = op_precision::full;
  static constexpr save_rule saves = save_inputs(0, 1);  // and, as statistics, rstd of each row
  static constexpr flop_counts flops_per_element{5, 10};

  /// Norms have the policy's type of reductions.
  template <class Call, class X>
  using output_type = tensor<typename Call::reduce, typename X::shape, typename X::device>;
  template <class Call, class X>
  using statistics_type = tensor<typename Call::accumulate, shape<rows_of<typename X::shape>>, typename X::device>;

  template <class Call, class X, class W>
  constexpr auto forward(Call how, const X& x, const W& w) const {
    auto& ctx = how.owner();
    using Y = output_type<Call, X>;
    using S = statistics_type<Call, X>;
    using on_device = kernel<rms_norm, typename X::device>;
    check_extents_meet(name, X::rank - 1, x.extent(-1), w.extent(0));
    Y y(ctx, x.extents());
    return with_optional_statistics<S>(how, y, [&](auto* kept) {
      on_device::forward(ctx, eps, as_matrix(x.extents()), y.data(), kept, x.data(), w.data());
    });
  }
  template <class Saved, class Y, class X, class W>
  constexpr void backward(const Saved& saved, Y dy, const gradient_sink<X>& dx, const gradient_sink<W>& dw) const {
    auto& ctx = dy.owner();
    using partial_sums = tensor<typename std::remove_cvref_t<decltype(statistics(saved))>::value_type,
                                shape<detail::norm_blocks<typename X::shape>, 2, W::size>, typename X::device>;
    partial_sums partial;
    if (dw) partial = partial_sums(ctx, category::temporary);
    const auto to_x = detail::open_target(ctx, dx);  // in this order: x may be the weight
    const auto to_w = detail::open_target(ctx, dw);
    kernel<rms_norm, typename X::device>::backward(
        ctx, as_matrix(dx.extents()), to_x, to_w, partial ? partial.data() : nullptr, std::as_const(dy).data(),
        input<0>(saved).data(), input<1>(saved).data(), statistics(saved).data());
  }
};

}  // namespace op::inline GRADUS_BUILD

/// Divides rows by their root mean square (of mean square + eps), then scales: x [..., C], weight [C] -> [..., C].
template <operand X, operand W>
GRADUS_OF_BUILD constexpr auto rms_norm(X&& x, W&& weight, double eps = 1e-5) {
  using sx = shape_of<X>;
  using sw = shape_of<W>;
  GRADUS_REQUIRE("rms_norm(x, weight): x needs an axis, weight has exactly one", sx::rank >= 1 && sw::rank == 1)
  GRADUS_REQUIRE("rms_norm(x, weight): columns of x must equal the length of weight",
                 detail::columns_equal_length_of_weight<sx::extent_in_type(-1), sw::extent_in_type(0)>)
  GRADUS_REQUIRE("rms_norm(x, weight): the operands must have floating-point elements",
                 detail::have_floating_elements<value_of_t<X>, value_of_t<W>>)
  return apply(op::rms_norm{eps}, std::forward<X>(x), std::forward<W>(weight));
}

}  // namespace gradus
