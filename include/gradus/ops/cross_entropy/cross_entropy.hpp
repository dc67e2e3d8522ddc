#pragma once
// Cross-entropy loss: operation, shape rule and gradient.

#include <string_view>
#include <type_traits>
#include <utility>

#include "../../autodiff/apply.hpp"
#include "../../core/config.hpp"
#include "../../core/cost.hpp"
#include "../../core/shape_algebra.hpp"

namespace gradus {

namespace detail {
template <class LeadingShapeOfLogits, class ShapeOfTargets>
inline constexpr bool targets_match_rows_of_logits = std::is_same_v<LeadingShapeOfLogits, ShapeOfTargets>;
// Floating-point targets of the shape of the logits are probabilities: ops/nll.
template <class X, class Targets>
inline constexpr bool are_probabilities =
    is_floating<value_of_t<Targets>> && std::is_same_v<shape_of<X>, shape_of<Targets>>;
template <index_t Vocabulary, index_t ColumnsOfLogits>
inline constexpr bool vocabulary_fits_columns_of_logits = Vocabulary >= 1 && Vocabulary <= ColumnsOfLogits;
}  // namespace detail

namespace op::inline GRADUS_BUILD {

/// Mean of log(sum exp(row)) - row[target] over the rows whose target is not `ignore`, over the first `Vocabulary`
/// columns. Gradient: (softmax - onehot) / count.
///
/// If recorded, forward also computes the gradient, while a row is in the cache, and saves only that. It overwrites
/// logits without other owners: training has one [..., V] tensor instead of three. Kernels: forward(ctx, ignore,
/// matrix, loss, gradient, row losses, logits, targets); backward(ctx, size, gradient, dloss, kept).
template <index_t Vocabulary>
struct cross_entropy {
  long long ignore;

  /// Factor of the saved gradient, divided out in backward: f16 underflows for probabilities over thousands of rows.
  template <class T>
  using kept = std::integral_constant<int, std::is_same_v<T, f16> ? 4096 : 1>;

  static constexpr std::string_view name = "cross_entropy";
  static constexpr op_precision precision = op_precision::full;
  static constexpr save_rule saves = save_nothing();  // but, as statistics, the gradient for a loss gradient of 1
  static constexpr flop_counts flops_per_element{5, 0};
  static constexpr bool gradients_in_forward = true;

  template <class Call, class X, class Targets>
  constexpr auto forward(Call how, X logits, const Targets& targets) const {
    using loss_type = tensor<typename Call::reduce, shape<>, typename X::device>;
    auto& ctx = how.owner();
    for (index_t i = 0; i + 1 < X::rank; ++i)
      check_extents_meet(name, i, logits.extents().extents[i], targets.extents().extents[i]);
    loss_type loss(ctx);
    tensor<double, shape<rows_of<typename X::shape>>, typename X::device> row_losses(ctx, category::temporary);
    const auto run = [&, of = as_matrix(logits.extents()),
                      from = std::as_const(logits).data()](typename X::value_type* gradient) {
      kernel<cross_entropy, typename X::device>::forward(ctx, ignore, of, loss.data(), gradient, row_losses.data(),
                                                         from, targets.data());
    };
    if constexpr (Call::saves_statistics) {
      X gradient = own(ctx, std::move(logits));
      run(gradient.data());
      return with_statistics<loss_type, X>{std::move(loss), std::move(gradient)};
    } else {
      run(nullptr);
      return loss;
    }
  }
  template <class Saved, class Loss, class X, class Targets>
  constexpr void backward(const Saved& saved, Loss dloss, const gradient_sink<X>& dx,
                          const gradient_sink<Targets>&) const {
    if (!dx) return;
    X gradient = statistics(saved);  // the only owner, not read again: may be scaled in place
    kernel<cross_entropy, typename X::device>::backward(dloss.owner(), gradient.extents().size, gradient.data(),
                                                        std::as_const(dloss).data(), kept<typename X::value_type>{});
    dx.give(std::move(gradient));
  }

 private:
  template <class X>
  static constexpr X own(context<typename X::device>& ctx, X logits) {
    if (logits.unique()) return logits;
    return X(ctx, logits.extents());
  }
};

}  // namespace op::inline GRADUS_BUILD

/// Mean cross-entropy between rows of logits [..., V] and target classes [...], a scalar. Skips rows whose target is
/// `ignore`; the loss is 0 if all are. `cross_entropy<Vocabulary>` excludes the columns from Vocabulary on, such as the
/// padding of a vocabulary. A recorded call overwrites logits passed as an rvalue without other owners. Throws
/// gradus::error for any other target outside 0 .. Vocabulary-1 (on the CPU).
template <index_t Vocabulary = 0, operand X, operand Targets>
  requires(!detail::are_probabilities<X, Targets>)
GRADUS_OF_BUILD constexpr auto cross_entropy(X&& logits, Targets&& targets, long long ignore = -1) {
  using sx = shape_of<X>;
  constexpr index_t columns = columns_of<sx>, real = Vocabulary == 0 ? columns : Vocabulary;
  GRADUS_REQUIRE("cross_entropy(logits, targets): logits need at least one axis", sx::rank >= 1)
  GRADUS_REQUIRE("cross_entropy(logits, targets): logits must be floating-point numbers", is_floating<value_of_t<X>>)
  GRADUS_REQUIRE("cross_entropy(logits, targets): targets must be integers", std::is_integral_v<value_of_t<Targets>>)
  GRADUS_REQUIRE("cross_entropy(logits, targets): the last axis of logits, the classes, is not upto<N>",
                 detail::axis_is_not_bounded<sx::extent_in_type(-1)>)
  GRADUS_REQUIRE("cross_entropy(logits, targets): targets must have the shape of logits without the last axis",
                 detail::targets_match_rows_of_logits<leading_shape<sx, sx::rank - 1>, shape_of<Targets>>)
  GRADUS_REQUIRE("cross_entropy<Vocabulary>(logits, targets): Vocabulary must not exceed the columns of logits",
                 detail::vocabulary_fits_columns_of_logits<real, columns>)
  return apply(op::cross_entropy<real>{ignore}, std::forward<X>(logits), std::forward<Targets>(targets));
}

}  // namespace gradus
