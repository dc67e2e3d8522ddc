#pragma once
// Losses of classes: nll_loss, and cross_entropy with label smoothing, class weights, probabilities or a reduction.

#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "../../autodiff/apply.hpp"
#include "../../core/config.hpp"
#include "../../core/cost.hpp"
#include "../../core/shape_algebra.hpp"
#include "../cross_entropy/cross_entropy.hpp"
#include "../losses/losses.hpp"
#include "../softmax/softmax.hpp"

namespace gradus {

/// How cross_entropy treats its targets: rows whose target is `ignore` do not count, and each row's probability is
/// `1 - smoothing` at its target and `smoothing` spread evenly over all classes (Szegedy et al. 2016).
struct cross_entropy_options {
  long long ignore = -1;
  double smoothing = 0;
};

/// What a kernel of nll needs to know.
struct nll_task {
  index_t rows, columns;
  cross_entropy_options options;
  bool by_row, divided;  ///< the loss has an element per row; it is divided by the sum of the targets' weights
};

namespace detail {
/// What the sum of the losses is divided by: infinity for the mean over targets without weight, which is 0, as is its
/// gradient.
GRADUS_HD constexpr double nll_divisor(const nll_task& task, double weight) {
  if (!task.divided) return 1;
  return weight != 0 ? weight : std::numeric_limits<double>::infinity();
}
}  // namespace detail

namespace op::inline GRADUS_BUILD {

/// -(1 - smoothing) w[t] x[t] - smoothing / V sum(w x) of each row x of log-probabilities with target t; their sum, or
/// it divided by the sum of w[t]. Saves the targets and weights, and that sum. Kernels of all reductions: forward(ctx,
/// task, y, total, rows, x, targets, weights), backward(ctx, task, dx, accumulate, dy, total, targets, weights).
template <reduction R>
struct nll {
  cross_entropy_options options;

  static constexpr std::string_view name = "nll";
  static constexpr op_precision precision = op_precision::full;
  static constexpr save_rule saves = save_inputs(1, 2);  // and, as statistics, the sum of the targets' weights
  static constexpr flop_counts flops_per_element{2, 1};

  template <class Call, class X, class Targets, class... Weights>
  constexpr auto forward(Call how, const X& x, const Targets& targets, const Weights&... weights) const {
    using S = std::conditional_t<R == reduction::none, typename Targets::shape, shape<>>;
    using Y = tensor<typename Call::reduce, S, typename X::device>;
    using total_type = tensor<double, shape<>, typename X::device>;
    auto& ctx = how.owner();
    for (index_t i = 0; i + 1 < X::rank; ++i)
      check_extents_meet(name, i, x.extents().extents[i], targets.extents().extents[i]);
    Y y = loss_like<Y>(ctx, targets);
    total_type total(ctx, Call::saves_statistics ? category::activation : category::temporary);
    // The losses and the weights of rows.
    tensor<double, shape<2, rows_of<typename X::shape>>, typename X::device> rows(ctx, category::temporary);
    on_device<X>::forward(ctx, task_for(x.extents()), y.data(), total.data(), rows.data(), x.data(), targets.data(),
                          address_of(weights...));
    if constexpr (Call::saves_statistics) return with_statistics<Y, total_type>{std::move(y), std::move(total)};
    else return y;
  }
  template <class Saved, class Y, class X, class Targets, class... Weights>
  constexpr void backward(const Saved& saved, const Y& dy, const gradient_sink<X>& dx, const gradient_sink<Targets>&,
                          const gradient_sink<Weights>&...) const {
    if (!dx) return;
    auto to = dx.open(dy.owner());
    const auto run = [&](const auto* weights) {
      on_device<X>::backward(dy.owner(), task_for(dx.extents()), to.tensor.data(), to.accumulate, dy.data(),
                             statistics(saved).data(), input<1>(saved).data(), weights);
    };
    if constexpr (sizeof...(Weights) == 0) run(address_of());
    else run(address_of(input<2>(saved)));
  }

 private:
  template <class X>
  using on_device = kernel<nll<reduction::mean>, typename X::device>;
  template <class Extents>
  constexpr nll_task task_for(const Extents& of) const {
    return {rows_in(of), columns_in(of), options, R == reduction::none, R == reduction::mean};
  }
  template <class Y, class Targets>
  static constexpr Y loss_like(context<typename Y::device>& ctx, [[maybe_unused]] const Targets& targets) {
    if constexpr (R == reduction::none) return Y(ctx, targets.extents());
    else return Y(ctx);
  }
  static constexpr const float* address_of() { return nullptr; }
  template <class W>
  static constexpr const typename W::value_type* address_of(const W& weights) {
    return weights.data();
  }
};

}  // namespace op::inline GRADUS_BUILD

namespace functor {
// clang-format off
/// -w x (t (1 - smoothing) + uniform): the part of a class in the cross-entropy with the probabilities t.
struct class_error { static constexpr std::string_view name = "class_error";
  double smoothing, uniform; static constexpr bool floating_only = true, full = true;
  template <class T> GRADUS_HD T operator()(T x, T t) const { return -x * (t * T(1 - smoothing) + T(uniform)); }
  template <class T> GRADUS_HD T operator()(T x, T t, T w) const { return w * (*this)(x, t); } };
// clang-format on
}  // namespace functor

namespace detail {
// Named in compiler messages, with both types.
template <class Weights, class X>
inline constexpr bool is_weight_of_each_class =
    is_floating<value_of_t<Weights>> && std::is_same_v<shape_of<Weights>, shape<columns_of<shape_of<X>>>>;
template <class X, class Targets>
constexpr bool are_class_targets() {
  if constexpr (shape_of<X>::rank == 0) return false;
  else
    return std::is_integral_v<value_of_t<Targets>> &&
           std::is_same_v<leading_shape<shape_of<X>, shape_of<X>::rank - 1>, shape_of<Targets>>;
}
template <class X, class Targets>
inline constexpr bool are_targets_of_rows = are_class_targets<X, Targets>();

template <class S>
constexpr index_t last_in_type() {
  if constexpr (S::rank == 0) return 1;
  else return S::extent_in_type(-1);
}
template <class S>
inline constexpr index_t classes_in_type = last_in_type<S>();
[[noreturn]] inline void fail_smoothing(double smoothing) {
  throw error("cross_entropy(x, targets, options): smoothing is " + std::to_string(smoothing) + "; it must be 0 to 1");
}

template <reduction R, class X, class Targets, class... Weights>
GRADUS_OF_BUILD constexpr auto nll_of(cross_entropy_options options, X&& x, const Targets& targets,
                                      const Weights&... weights) {
  GRADUS_REQUIRE("nll_loss(x, targets): x must have floating-point elements", is_floating<value_of_t<X>>)
  GRADUS_REQUIRE("nll_loss, cross_entropy(x, targets): the last axis of x, the classes, is not upto<N>",
                 axis_is_not_bounded<classes_in_type<shape_of<X>>>)
  GRADUS_REQUIRE(
      "nll_loss, cross_entropy(x, targets): targets must be integers in the shape of x without the last axis",
      are_targets_of_rows<X, Targets>)
  GRADUS_REQUIRE("nll_loss, cross_entropy(x, targets, weights): weights must be one floating-point number per class",
                 (is_weight_of_each_class<Weights, X> && ...))
  return apply(op::nll<R>{options}, std::forward<X>(x), targets, weights...);
}
template <reduction R, class X, class Targets, class... Weights>
GRADUS_OF_BUILD constexpr auto class_loss(cross_entropy_options options, X&& logits, const Targets& targets,
                                          const Weights&... weights) {
  if (!(options.smoothing >= 0 && options.smoothing <= 1)) fail_smoothing(options.smoothing);
  GRADUS_REQUIRE("cross_entropy(logits, targets): the last axis of logits, the classes, is not upto<N>",
                 axis_is_not_bounded<classes_in_type<shape_of<X>>>)
  if constexpr (are_probabilities<X, Targets>) {
    const double uniform = options.smoothing / static_cast<double>(columns_of<shape_of<X>>);
    return reduce_loss<R>(sum<-1>(apply(op::map<functor::class_error>{{options.smoothing, uniform}},
                                        log_softmax(std::forward<X>(logits)), targets, weights...)));
  } else {
    return nll_of<R>(options, log_softmax(std::forward<X>(logits)), targets, weights...);
  }
}
}  // namespace detail

/// -x[target] of rows of log-probabilities [..., V] with integer targets [...]: their mean, `nll_loss<reduction::sum>`,
/// or `<reduction::none>`, [...]. Rows whose target is `ignore` do not count; the mean is 0 if all are. Throws
/// gradus::error for any other target outside 0 .. V-1 (on the CPU; on a GPU the loss is NaN). Weights [V] are factors
/// of the classes; the mean divides by the sum of the weights of the targets.
template <reduction R = reduction::mean, operand X, operand Targets>
GRADUS_OF_BUILD constexpr auto nll_loss(X&& x, const Targets& targets, long long ignore = -1) {
  return detail::nll_of<R>({.ignore = ignore}, std::forward<X>(x), targets);
}
template <reduction R = reduction::mean, operand X, operand Targets, operand Weights>
GRADUS_OF_BUILD constexpr auto nll_loss(X&& x, const Targets& targets, const Weights& weights, long long ignore = -1) {
  return detail::nll_of<R>({.ignore = ignore}, std::forward<X>(x), targets, weights);
}

/// The cross-entropy with options, class weights [V] or a reduction; targets are integers [...], or probabilities
/// [..., V], whose mean is over the rows. Computes log_softmax(logits) first; the plain call needs no such tensor.
template <reduction R, operand X, operand Targets>
GRADUS_OF_BUILD constexpr auto cross_entropy(X&& logits, const Targets& targets, cross_entropy_options options = {}) {
  return detail::class_loss<R>(options, std::forward<X>(logits), targets);
}
template <reduction R = reduction::mean, operand X, operand Targets, operand Weights>
GRADUS_OF_BUILD constexpr auto cross_entropy(X&& logits, const Targets& targets, const Weights& weights,
                                             cross_entropy_options options = {}) {
  return detail::class_loss<R>(options, std::forward<X>(logits), targets, weights);
}
template <operand X, operand Targets>
GRADUS_OF_BUILD constexpr auto cross_entropy(X&& logits, const Targets& targets, cross_entropy_options options) {
  return detail::class_loss<reduction::mean>(options, std::forward<X>(logits), targets);
}
/// The mean cross-entropy with probabilities, a scalar.
template <operand X, operand Targets>
  requires detail::are_probabilities<X, Targets>
GRADUS_OF_BUILD constexpr auto cross_entropy(X&& logits, const Targets& targets) {
  return detail::class_loss<reduction::mean>({}, std::forward<X>(logits), targets);
}

}  // namespace gradus
