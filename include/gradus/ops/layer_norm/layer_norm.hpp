#pragma once
// Layer normalisation: operation, shape rule and gradient.

#include <string_view>
#include <type_traits>
#include <utility>

#include "../../autodiff/apply.hpp"
#include "../../core/config.hpp"
#include "../../core/cost.hpp"
#include "../../core/shape_algebra.hpp"
#include "../broadcast/broadcast.hpp"

namespace gradus {

namespace detail {

template <index_t ColumnsOfX, index_t LengthOfWeight>
inline constexpr bool columns_equal_length_of_weight = ColumnsOfX == LengthOfWeight;
template <index_t LengthOfWeight, index_t LengthOfBias>
inline constexpr bool length_of_weight_equals_length_of_bias = LengthOfWeight == LengthOfBias;

template <class... Ts>
inline constexpr bool have_floating_elements = (is_floating<Ts> && ...);

/// The blocks of rows whose parameter gradients a norm sums separately: a fixed grid, independent of the thread count.
constexpr index_t norm_block(index_t rows) { return (rows + 191) / 192; }
/// The most blocks that tensors of this shape have.
template <class Shape>
inline constexpr index_t norm_blocks =
    Shape::bounded ? (rows_of<Shape> < 192 ? rows_of<Shape> : 192)
                   : (rows_of<Shape> + norm_block(rows_of<Shape>) - 1) / norm_block(rows_of<Shape>);

/// Where a kernel writes the gradient for `sink`.
template <class X>
constexpr elementwise_target<typename X::value_type> open_target(context<typename X::device>& ctx,
                                                                 const gradient_sink<X>& sink) {
  if (!sink) return {};
  auto to = sink.open(ctx);
  return {to.tensor.data(), to.accumulate};
}

}  // namespace detail

namespace op::inline GRADUS_BUILD {

/// y = (x - mean) rstd w + b along the last axis, rstd = 1 / sqrt(var + eps) with the population variance (Ba, Kiros
/// and Hinton, "Layer Normalization", 2016). With g = dy w and x^ = (x - mean) rstd:
/// dx = rstd (g - mean(g) - x^ mean(g x^)), dw = sum dy x^, db = sum dy.
struct layer_norm {
  double eps;

  static constexpr std::string_view name = "layer_norm";
  static constexpr op_precision precision = op_precision::full;
  static constexpr save_rule saves = save_inputs(0, 1);  // and, as statistics, mean and rstd of each row
  static constexpr flop_counts flops_per_element{8, 14};

  /// Norms have the policy's type of reductions.
  template <class Call, class X>
  using output_type = tensor<typename Call::reduce, typename X::shape, typename X::device>;
  template <class Call, class X>
  using statistics_type = tensor<typename Call::accumulate, shape<2, rows_of<typename X::shape>>, typename X::device>;

  template <class Call, class X, class W, class B>
  constexpr auto forward(Call how, const X& x, const W& w, const B& b) const {
    auto& ctx = how.owner();
    using Y = output_type<Call, X>;
    using S = statistics_type<Call, X>;
    using on_device = kernel<layer_norm, typename X::device>;
    check_extents_meet(name, X::rank - 1, x.extent(-1), w.extent(0));
    check_extents_meet(name, 0, w.extent(0), b.extent(0));
    Y y(ctx, x.extents());
    return with_optional_statistics<S>(how, y, [&](auto* kept) {
      on_device::forward(ctx, eps, as_matrix(x.extents()), y.data(), kept, x.data(), w.data(), b.data());
    });
  }
  template <class Saved, class Y, class X, class W, class B>
  constexpr void backward(const Saved& saved, Y dy, const gradient_sink<X>& dx, const gradient_sink<W>& dw,
                          const gradient_sink<B>& db) const {
    auto& ctx = dy.owner();
    using partial_sums = tensor<typename std::remove_cvref_t<decltype(statistics(saved))>::value_type,
                                shape<detail::norm_blocks<typename X::shape>, 2, W::size>, typename X::device>;
    const bool parameters = dw || db;
    partial_sums partial;
    if (parameters) partial = partial_sums(ctx, category::temporary);
    // In order: one parameter may be both weight and bias; the sink opened first is written first.
    const auto to_x = detail::open_target(ctx, dx);
    const auto to_w = detail::open_target(ctx, dw);
    const auto to_b = detail::open_target(ctx, db);
    kernel<layer_norm, typename X::device>::backward(
        ctx, as_matrix(dx.extents()), to_x, to_w, to_b, partial ? partial.data() : nullptr, std::as_const(dy).data(),
        input<0>(saved).data(), input<1>(saved).data(), statistics(saved).data());
  }
};

}  // namespace op::inline GRADUS_BUILD

/// Normalises along the last axis (variance + eps), then scales and shifts: x [..., C], weight, bias [C] -> [..., C].
template <operand X, operand W, operand B>
GRADUS_OF_BUILD constexpr auto layer_norm(X&& x, W&& weight, B&& bias, double eps = 1e-5) {
  using sx = shape_of<X>;
  using sw = shape_of<W>;
  using sb = shape_of<B>;
  GRADUS_REQUIRE("layer_norm(x, weight, bias): x needs an axis, weight and bias have exactly one",
                 sx::rank >= 1 && sw::rank == 1 && sb::rank == 1)
  GRADUS_REQUIRE("layer_norm(x, weight, bias): columns of x must equal the length of weight",
                 detail::columns_equal_length_of_weight<sx::extent_in_type(-1), sw::extent_in_type(0)>)
  GRADUS_REQUIRE("layer_norm(x, weight, bias): weight and bias must have the same length",
                 detail::length_of_weight_equals_length_of_bias<sw::extent_in_type(0), sb::extent_in_type(0)>)
  GRADUS_REQUIRE("layer_norm(x, weight, bias): the operands must have floating-point elements",
                 detail::have_floating_elements<value_of_t<X>, value_of_t<W>, value_of_t<B>>)
  return apply(op::layer_norm{eps}, std::forward<X>(x), std::forward<W>(weight), std::forward<B>(bias));
}

}  // namespace gradus
