#pragma once
// Batch, group and instance normalisation: operations, shape rules and gradients.

#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "../../autodiff/apply.hpp"
#include "../../autodiff/state_update.hpp"
#include "../../core/config.hpp"
#include "../../core/cost.hpp"
#include "../../core/error.hpp"
#include "../../core/shape_algebra.hpp"
#include "../../precision/policy.hpp"
#include "../layer_norm/layer_norm.hpp"
#include "groups.hpp"

namespace gradus {

namespace detail {

/// The shape of the moments of x: [C, 2] for batch norm, [B, Groups, 2] for groups of each sample.
template <class S, index_t Groups>
struct moments_shape {
  using type = shape<S::extent_in_type(0), Groups, 2>;
};
template <class S>
struct moments_shape<S, 0> {
  using type = shape<S::extent_in_type(1), 2>;
};
/// Runs of a tensor of shape S: its samples times its channels.
template <class S>
inline constexpr index_t runs_of = S::extent(0) * S::extent(1);

}  // namespace detail

namespace op::inline GRADUS_BUILD {

/// Mean and variance (of the population) of each group of x [B, C, ...]: [C, 2], or [B, Groups, 2]. Of each run first,
/// then joined (Chan, Golub and LeVeque, "Updating Formulae and a Pairwise Algorithm for Computing Sample Variances",
/// 1979), so that x is read from memory once. It has no gradient of its own: channel_norm's includes it.
/// Kernel: forward(ctx, moments, parts, x, groups); parts [2, runs] is scratch.
template <index_t Groups>
struct channel_moments {
  static constexpr std::string_view name = "channel_moments";
  static constexpr op_precision precision = op_precision::full;
  static constexpr save_rule saves = save_nothing();
  static constexpr flop_counts flops_per_element{4, 0};

  template <class Call, class X>
  constexpr auto forward(Call how, const X& x) const {
    using C = typename Call::accumulate;
    using Shape = typename gradus::detail::moments_shape<typename X::shape, Groups>::type;
    using parts_type = tensor<C, shape<2, gradus::detail::runs_of<typename X::shape>>, typename X::device>;
    auto& ctx = how.owner();
    const auto groups = channel_groups::of<Groups>(x.extents());
    tensor<C, Shape, typename X::device> moments(ctx, extents_from<Shape>([&] {
                                                   auto all = Shape::extents;
                                                   all[0] = groups.batch;  // bounded only if it is the batch
                                                   return all;
                                                 }));
    parts_type parts(ctx, category::temporary);
    kernel<channel_moments<0>, typename X::device>::forward(ctx, moments.data(), parts.data(), x.data(), groups);
    return moments;
  }
  template <class Saved, class Y, class X>
  constexpr void backward(const Saved&, const Y&, const gradient_sink<X>&) const {}
};

/// y = (x - mean) rstd w + b with rstd = 1 / sqrt(variance + eps); w and b are of the channel, mean and variance of the
/// group: one tensor of moments, computed from x, or two, of running ones (Ioffe and Szegedy, "Batch Normalization",
/// 2015; Wu and He, "Group Normalization", 2018). With g = dy w and x^ = (x - mean) rstd, dw = sum dy x^, db = sum dy,
/// and dx = rstd (g - mean(g) - x^ mean(g x^)), with means over the group; dx = rstd g if the moments are constants.
/// Kernels: forward(ctx, eps, y, x, w, b, moments, groups), backward(ctx, eps, dx, dw, db, parts, means, dy, x, w,
/// moments, groups); parts [2, runs] and means [groups, 2] are scratch, null means stand for 0.
template <index_t Groups>
struct channel_norm {
  double eps;

  static constexpr std::string_view name = Groups == 0 ? "batch_norm" : "group_norm";
  using family = channel_norm<0>;
  static constexpr op_precision precision = op_precision::full;
  static constexpr save_rule saves = save_inputs(0, 1, 3, 4);
  static constexpr flop_counts flops_per_element{3, 10};

  template <class Call, class X, class W, class B, class... M>
  constexpr auto forward(Call how, const X& x, const W& w, const B& b, const M&... m) const {
    using Y = tensor<typename Call::reduce, typename X::shape, typename X::device>;
    Y y(how.owner(), x.extents());
    on_device<X>::forward(how.owner(), eps, y.data(), x.data(), w.data(), b.data(), moments(m...),
                          channel_groups::of<Groups>(x.extents()));
    return y;
  }
  template <class Saved, class Y, class X, class W, class B, class M>
  constexpr void backward(const Saved& saved, const Y& dy, const gradient_sink<X>& dx, const gradient_sink<W>& dw,
                          const gradient_sink<B>& db, const gradient_sink<M>&) const {
    run_backward<false>(saved, dy, dx, dw, db, moments(input<3>(saved)));
  }
  template <class Saved, class Y, class X, class W, class B, class M>
  constexpr void backward(const Saved& saved, const Y& dy, const gradient_sink<X>& dx, const gradient_sink<W>& dw,
                          const gradient_sink<B>& db, const gradient_sink<M>&, const gradient_sink<M>&) const {
    run_backward<true>(saved, dy, dx, dw, db, moments(input<3>(saved), input<4>(saved)));
  }

 private:
  template <class X>
  using on_device = kernel<channel_norm<0>, typename X::device>;

  template <class M>
  static constexpr group_moments<typename M::value_type> moments(const M& both) {
    return {both.data(), both.data(), true};
  }
  template <class M>
  static constexpr group_moments<typename M::value_type> moments(const M& means, const M& variances) {
    return {means.data(), variances.data(), false};
  }
  template <bool Constant, class Saved, class Y, class X, class W, class B, class M>
  constexpr void run_backward(const Saved& saved, const Y& dy, const gradient_sink<X>& dx, const gradient_sink<W>& dw,
                              const gradient_sink<B>& db, const group_moments<M>& m) const {
    using C = compute_type<promote<typename Y::value_type, M>>;
    constexpr index_t runs = gradus::detail::runs_of<typename X::shape>;
    auto& ctx = dy.owner();
    const auto groups = channel_groups::of<Groups>(dx.extents());
    tensor<C, shape<2, runs>, typename X::device> parts(ctx, category::temporary);
    tensor<C, shape<Groups == 0 ? X::shape::extent(1) : X::shape::extent(0) * Groups, 2>, typename X::device> means;
    if constexpr (!Constant) means = decltype(means)(ctx, category::temporary);
    const auto to_x = gradus::detail::open_target(ctx, dx);
    const auto to_w = gradus::detail::open_target(ctx, dw);
    const auto to_b = gradus::detail::open_target(ctx, db);
    on_device<X>::backward(ctx, eps, to_x, to_w, to_b, parts.data(), Constant ? nullptr : means.data(), dy.data(),
                           input<0>(saved).data(), input<1>(saved).data(), m, groups);
  }
};

/// The next running mean (which: 0) or variance (1) of a batch norm: (1 - momentum) running + momentum factor moment.
/// Kernel: forward(ctx, next, running, moments, which, momentum, factor, channels), where moments are [channels, 2].
struct running_moment {
  index_t which;
  double momentum, factor;

  static constexpr std::string_view name = "running_moment";
  static constexpr save_rule saves = save_nothing();

  template <class R, class M>
  constexpr R forward(auto how, const R& running, const M& moments) const {
    R next(how.owner());
    kernel<running_moment, typename R::device>::forward(how.owner(), next.data(), running.data(), moments.data(), which,
                                                        momentum, factor, R::size);
    return next;
  }
};

}  // namespace op::inline GRADUS_BUILD

/// The policy of the running state of a batch norm in X: float if X stores 16 bits, which would round away the share of
/// one batch.
template <class X>
using running_policy = std::conditional_t<sizeof(typename X::store) < sizeof(float), on<typename X::device>, X>;

/// Settings of batch_norm.
struct batch_norm_options {
  double momentum = 0.1;  ///< the share of a batch in the running state
  double eps = 1e-5;
};

namespace detail {

// Named in compiler messages.
template <index_t Channels, index_t LengthOfWeight, index_t LengthOfBias>
inline constexpr bool one_weight_and_bias_for_each_channel =
    Channels == LengthOfWeight && LengthOfWeight == LengthOfBias;
template <index_t Channels, index_t Groups>
inline constexpr bool channels_are_divisible_by_groups = Groups > 0 && Channels % Groups == 0;
template <class ShapeOfState, class Shape>
inline constexpr bool state_is_of_shape = std::is_same_v<ShapeOfState, Shape>;
template <class S>
inline constexpr bool channels_have_several_values = S::bounded || S::size / S::extent(1) > 1;

[[noreturn]] inline void fail_one_value() {
  throw error(
      "batch_norm: the batch has one value for each channel, so it has no variance; in training it needs two or more");
}

// True if x is [B, C, ...] with numbers of channels that fit.
template <class X, class W, class B>
constexpr bool check_channel_norm() {
  using sx = shape_of<X>;
  using sw = shape_of<W>;
  using sb = shape_of<B>;
  GRADUS_REQUIRE("batch_norm, group_norm, instance_norm(x, weight, bias): x is [B, C, ...], weight and bias are [C]",
                 sx::rank >= 2 && sw::rank == 1 && sb::rank == 1)
  GRADUS_REQUIRE(
      "batch_norm, group_norm, instance_norm(x, weight, bias): weight and bias must have x's channels",
      one_weight_and_bias_for_each_channel<sx::extent_in_type(1), sw::extent_in_type(0), sb::extent_in_type(0)> &&
          !is_bounded(sx::extent_in_type(1)))
  GRADUS_REQUIRE(
      "batch_norm, group_norm, instance_norm(x, weight, bias): the operands must have floating-point elements",
      have_floating_elements<value_of_t<X>, value_of_t<W>, value_of_t<B>>)
  { return true; }
  return false;
}

}  // namespace detail

/// Normalises each channel of x [B, C, ...], then scales and shifts it by weight and bias [C]. If x is recorded, in
/// training, by the mean and the variance (of the population) of the batch, and the running state [C] takes a share of
/// them, of the unbiased variance (divided by n - 1), once a forward: a checkpoint region that is replayed does not
/// write it again. If x is plain, by the running state. Throws error if a recorded channel has one value only.
template <operand X, operand W, operand B, class P, index_t... Extents>
GRADUS_OF_BUILD constexpr auto batch_norm(X&& x, W&& weight, B&& bias, const state<P, Extents...>& mean,
                                          const state<P, Extents...>& variance,
                                          const batch_norm_options& options = {}) {
  if constexpr (detail::check_channel_norm<X, W, B>()) {
    GRADUS_REQUIRE("batch_norm(x, weight, bias, mean, variance): the running state must have x's channels",
                   detail::state_is_of_shape<shape<Extents...>, shape_of<W>>)
    if constexpr (!is_recorded<X>) {
      return apply(op::channel_norm<0>{options.eps}, std::forward<X>(x), std::forward<W>(weight), std::forward<B>(bias),
                   mean, variance);
    } else {
      static_assert(detail::channels_have_several_values<shape_of<X>>,
                    "batch_norm(x, ...): in training the batch needs two or more values for each channel");
      const auto moments = apply(op::channel_moments<0>{}, std::as_const(x));
      auto& recorder = x.recorder();
      if (recorder.is_forward()) {
        const auto n = static_cast<double>(x.carried().extents().size / shape_of<W>::size);
        if (n == 1) detail::fail_one_value();
        const auto next = [&](const auto& running, const op::running_moment& op) {
          return detail::run_unrecorded(recorder.owner(), phase::forward, op, running.value(), moments.value());
        };
        mean.update(x, next(mean, {0, options.momentum, 1}));
        variance.update(x, next(variance, {1, options.momentum, n / (n - 1)}));
      }
      return apply(op::channel_norm<0>{options.eps}, std::forward<X>(x), std::forward<W>(weight), std::forward<B>(bias),
                   moments);
    }
  }
}

/// Normalises each of `Groups` groups of adjacent channels of each sample of x [B, C, ...], then scales and shifts by
/// weight and bias [C].
template <index_t Groups, operand X, operand W, operand B>
GRADUS_OF_BUILD constexpr auto group_norm(X&& x, W&& weight, B&& bias, double eps = 1e-5) {
  if constexpr (detail::check_channel_norm<X, W, B>()) {
    GRADUS_REQUIRE("group_norm<Groups>(x, weight, bias): the channels must be divisible by the number of groups",
                   detail::channels_are_divisible_by_groups<shape_of<X>::extent(1), Groups>)
    {
      auto moments = apply(op::channel_moments<Groups>{}, std::as_const(x));
      return apply(op::channel_norm<Groups>{eps}, std::forward<X>(x), std::forward<W>(weight), std::forward<B>(bias),
                   std::move(moments));
    }
  }
}

/// Normalises each channel of each sample of x [B, C, ...], then scales and shifts by weight and bias [C].
template <operand X, operand W, operand B>
GRADUS_OF_BUILD constexpr auto instance_norm(X&& x, W&& weight, B&& bias, double eps = 1e-5) {
  return group_norm<shape_of<W>::extent(0)>(std::forward<X>(x), std::forward<W>(weight), std::forward<B>(bias), eps);
}

}  // namespace gradus
