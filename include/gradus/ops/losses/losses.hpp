#pragma once
// Losses of two tensors, element by element, and their reduction: one functor in one pass, then a sum or mean.

#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "../../core/config.hpp"
#include "../../core/math.hpp"
#include "../../core/shape_algebra.hpp"
#include "../comparison/comparison.hpp"
#include "../elementwise/elementwise.hpp"
#include "../reduce/reduce.hpp"

namespace gradus {

/// What a loss becomes: the mean of all elements, their sum, or the elements themselves.
enum class reduction { mean, sum, none };

namespace functor {

// clang-format off
/// (a - b)^2.
struct squared_error { static constexpr std::string_view name = "squared_error";
  static constexpr bool floating_only = true, full = true; static constexpr std::size_t flops = 2;
  template <class T> GRADUS_HD T operator()(T a, T b) const { const T d = a - b; return d * d; } };
/// |a - b|; its derivatives are 0 where a equals b.
struct absolute_error { static constexpr std::string_view name = "absolute_error";
  static constexpr bool floating_only = true, full = true; static constexpr std::size_t flops = 2;
  template <class T> GRADUS_HD T operator()(T a, T b) const { using math::abs; return abs(a - b); } };
/// d^2 / 2 where d = |a - b| is below delta, else delta (d - delta / 2) (Huber 1964).
struct huber_error { static constexpr std::string_view name = "huber_error";
  double delta; static constexpr bool floating_only = true, full = true; static constexpr std::size_t flops = 6;
  template <class T> GRADUS_HD T operator()(T a, T b) const {
    using math::abs;
    using math::select;
    const T d = abs(a - b);
    return select(d < T(delta), T(0.5) * d * d, T(delta) * (d - T(0.5 * delta)));
  } };
/// -weight t log(sigmoid(x)) - (1 - t) log(1 - sigmoid(x)), by e^-|x|: exact in both tails. The weight is a run-time
/// constant or a third operand.
struct logit_error { static constexpr std::string_view name = "logit_error";
  double weight = 1; static constexpr bool floating_only = true, full = true; static constexpr std::size_t flops = 30;
  template <class T> GRADUS_HD T operator()(T x, T t) const { return (*this)(x, t, T(weight)); }
  template <class T> GRADUS_HD T operator()(T x, T t, T w) const {
    using math::select;
    using math::softplus;
    const auto positive = x > T(0);
    const T rest = T(1) - t, weighted = w * t;
    return (weighted + rest) * softplus(select(positive, -x, x)) + select(positive, rest * x, -(weighted * x));
  } };
/// t (log t - x), and 0 where t is 0.
struct divergence { static constexpr std::string_view name = "divergence";
  static constexpr bool floating_only = true, full = true; static constexpr std::size_t flops = 14;
  template <class T> GRADUS_HD T operator()(T x, T t) const {
    using math::log;
    using math::select;
    const auto absent = t == T(0);
    return select(absent, T(0), t * (log(select(absent, T(1), t)) - x));
  } };
// clang-format on

}  // namespace functor

namespace detail {
// Named in compiler messages, with the shapes of both tensors.
template <class ShapeOfX, class ShapeOfTargets>
inline constexpr bool shapes_are_equal = std::is_same_v<ShapeOfX, ShapeOfTargets>;

template <reduction R, class Y>
GRADUS_OF_BUILD constexpr auto reduce_loss(Y&& y) {
  if constexpr (R == reduction::mean) return mean(std::forward<Y>(y));
  else if constexpr (R == reduction::sum) return sum(std::forward<Y>(y));
  else return std::forward<Y>(y);
}
// f of x, the targets and perhaps weights, reduced.
template <reduction R, class F, class X, class Y, class... Weights>
GRADUS_OF_BUILD constexpr auto loss_of(const F& f, X&& x, Y&& targets, Weights&&... weights) {
  using sx = shape_of<X>;
  GRADUS_REQUIRE("mse_loss(x, targets) and other losses: x and targets must have the same shape",
                 shapes_are_equal<sx, shape_of<Y>>)
  GRADUS_REQUIRE("mse_loss(x, targets) and other losses: x must have floating-point elements",
                 is_floating<value_of_t<X>>)
  GRADUS_REQUIRE("bce_with_logits(x, targets, weight): the weight must broadcast to the shape of x",
                 (std::is_same_v<broadcast_shape<sx, shape_of<Weights>>, sx> && ...))
  return reduce_loss<R>(
      apply(op::map<F>{f}, std::forward<X>(x), std::forward<Y>(targets), std::forward<Weights>(weights)...));
}
}  // namespace detail

/// (x - targets)^2, as a mean, as `mse_loss<reduction::sum>` or `<reduction::none>`. Both have the same shape; in 16
/// bits the result is float.
template <reduction R = reduction::mean, operand X, operand Y>
GRADUS_OF_BUILD constexpr auto mse_loss(X&& x, Y&& targets) {
  return detail::loss_of<R>(functor::squared_error{}, std::forward<X>(x), std::forward<Y>(targets));
}
/// |x - targets|; its derivative is 0 where both are equal.
template <reduction R = reduction::mean, operand X, operand Y>
GRADUS_OF_BUILD constexpr auto l1_loss(X&& x, Y&& targets) {
  return detail::loss_of<R>(functor::absolute_error{}, std::forward<X>(x), std::forward<Y>(targets));
}
namespace detail {
[[noreturn]] inline void fail_delta(double delta) {
  throw error("huber_loss(x, targets, delta): delta is " + std::to_string(delta) + "; it must be positive");
}
}  // namespace detail

/// Half the squared difference where it is below delta, and linear beyond: delta (|x - targets| - delta / 2). Throws
/// gradus::error unless delta is positive.
template <reduction R = reduction::mean, operand X, operand Y>
GRADUS_OF_BUILD constexpr auto huber_loss(X&& x, Y&& targets, double delta = 1) {
  if (!(delta > 0)) detail::fail_delta(delta);
  return detail::loss_of<R>(functor::huber_error{delta}, std::forward<X>(x), std::forward<Y>(targets));
}
/// The binary cross-entropy of sigmoid(x) and targets from 0 to 1, without overflow. `positive_weight` is a factor of
/// the targets' part: a number, or an operand that broadcasts to the shape of x.
template <reduction R = reduction::mean, operand X, operand Y>
GRADUS_OF_BUILD constexpr auto bce_with_logits(X&& x, Y&& targets, double positive_weight = 1) {
  return detail::loss_of<R>(functor::logit_error{positive_weight}, std::forward<X>(x), std::forward<Y>(targets));
}
template <reduction R = reduction::mean, operand X, operand Y, operand Weight>
GRADUS_OF_BUILD constexpr auto bce_with_logits(X&& x, Y&& targets, Weight&& positive_weight) {
  return detail::loss_of<R>(functor::logit_error{}, std::forward<X>(x), std::forward<Y>(targets),
                            std::forward<Weight>(positive_weight));
}
/// The Kullback-Leibler divergence of the probabilities `targets` from those whose logarithms x holds: targets (log
/// targets - x). The mean is over all elements; of distributions, use `reduction::sum` over their number.
template <reduction R = reduction::mean, operand X, operand Y>
GRADUS_OF_BUILD constexpr auto kl_divergence(X&& x, Y&& targets) {
  return detail::loss_of<R>(functor::divergence{}, std::forward<X>(x), std::forward<Y>(targets));
}

/// How many targets are not `ignore`, a float scalar on their device. Losses of parts of a batch with different numbers
/// of targets add up to the loss of the whole as sums, divided by the count of all:
/// `backward(cross_entropy<reduction::sum>(logits, targets) / all)`.
template <operand Targets>
GRADUS_OF_BUILD constexpr auto count_targets(const Targets& targets, long long ignore = -1) {
  GRADUS_REQUIRE("count_targets(targets): targets must be integers", std::is_integral_v<value_of_t<Targets>>)
  return cast<float>(sum(targets != ignore));
}

}  // namespace gradus
