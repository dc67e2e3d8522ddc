#pragma once
// map(f, x, y, ...): applies an elementwise functor to one to four operands that broadcast, in one pass; its gradient,
// by dual numbers, takes one more. arithmetic.hpp, functions.hpp and selection.hpp wrap it.

#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "../../autodiff/apply.hpp"
#include "../../core/config.hpp"
#include "../../core/cost.hpp"
#include "../../core/dual.hpp"
#include "../../core/shape_algebra.hpp"
#include "../broadcast/broadcast.hpp"

namespace gradus {

/// A functor whose derivatives are constants (`static constexpr bool linear = true`): backward needs no saved value.
template <class F>
inline constexpr bool is_linear_functor = requires { requires F::linear; };
/// A functor that may compute 16-bit results on coarse_pack, or on cuda_kit::coarse_number on a GPU (`static constexpr
/// bool coarse_form = true`).
template <class F>
inline constexpr bool has_coarse_form = requires { requires F::coarse_form; };
/// A functor is a sum if each derivative is 1 (`static constexpr bool sum = true`): gradients pass unchanged.
template <class F>
inline constexpr bool is_sum_functor = requires { requires F::sum; };

/// A functor that returns one of its operands or a constant (`static constexpr bool selects = true`). The gradient of
/// an operand that it did not select is 0, even if the output's is infinity or NaN, as in PyTorch. In other functors a
/// derivative of 0 may be a rounded small one: infinity times 0 stays NaN, and the loss scaler detects it.
template <class F>
inline constexpr bool is_selecting_functor = requires { requires F::selects; };

/// A functor of one operand that computes its derivative from its result (`derivative_from_output(y)`): the output is
/// saved instead of the operand. In 16 bits it is the derivative at the rounded output, as in PyTorch.
template <class F>
inline constexpr bool has_derivative_from_output = requires(const F& f) { f.derivative_from_output(1.0f); };

/// FLOPs per element, for cost reports: `static constexpr std::size_t flops` of the functor, or 1.
template <class F>
constexpr std::size_t functor_flops() {
  if constexpr (requires { F::flops; }) return F::flops;
  else return 1;
}

/// A functor whose result needs more than 16 bits (`static constexpr bool full = true`), as exp: op_precision::full.
template <class F>
inline constexpr bool is_full_functor = requires { requires F::full; };

/// A functor that does not compile for integers (`static constexpr bool floating_only = true`).
template <class F>
inline constexpr bool is_floating_functor = requires { requires F::floating_only; };

/// A functor that returns conditions (`using result = bool`): a tensor of bool without a gradient.
template <class F>
inline constexpr bool returns_condition = requires { typename F::result; };

namespace detail {
/// A functor's `static constexpr std::string_view name`, for plans, profiles and checkpoint policies; or "map".
template <class F>
constexpr std::string_view functor_name() {
  if constexpr (requires { F::name; }) return F::name;
  else return "map";
}
// A static_assert on it names the two shapes.
template <class A, class B>
inline constexpr bool shapes_broadcast = can_broadcast<A, B>;
// Scalars stand for the values that a functor is called with.
template <class X>
using functor_probe = std::conditional_t<is_floating<value_of_t<X>>, float, std::int32_t>;
template <class T, class X>
using one_type = T;
// True for functors such as [](float x) { … }, whose operator() is not a template.
template <class F>
inline constexpr bool takes_one_type = requires { &F::operator(); };
template <class F, class T, class... Xs>
inline constexpr bool functor_takes_arguments =
    std::is_invocable_v<const F&, one_type<T, Xs>...> && !(is_floating<T> && takes_one_type<F>);
template <class F, class T>
inline constexpr bool functor_takes = is_floating<T> || !is_floating_functor<F>;
// Stands for packs and duals of packs.
using functor_argument = dual<any_pack, 1>;

// Maps the result of F, as a dual number, to a dual number with F's derivative at the operand.
template <class F>
struct from_output {
  F f;
  static constexpr bool selects = is_selecting_functor<F>;
  template <class V>
  GRADUS_HD dual<V, 1> operator()(const dual<V, 1>& y) const {
    return chain(y.value, y, f.derivative_from_output(y.value));
  }
};

// The gradient of an operand: the gradient of F's result times a derivative of F.
template <class F, class V>
GRADUS_HD inline V gradient_through(V grad, V derivative) {
  if constexpr (is_selecting_functor<F>) return contribution(grad, derivative);
  else return grad * derivative;
}
}  // namespace detail

namespace op::inline GRADUS_BUILD {

/// The family of all elementwise operations, for checkpoint policies.
struct elementwise {
  static constexpr std::string_view name = "elementwise";
};

/// The operation of map(). The output has the type that the operands' types promote to; for a `full` functor, the
/// policy's type for reductions. Operands are converted in the same pass.
template <class F>
struct map {
  F f;

  using family = elementwise;
  static constexpr op_precision precision = is_full_functor<F> ? op_precision::full : op_precision::widest;
  static constexpr std::string_view name = gradus::detail::functor_name<F>();
  static constexpr save_rule saves = is_linear_functor<F> || returns_condition<F> ? save_nothing()
                                     : has_derivative_from_output<F>              ? save_output()
                                                                                  : save_rule{~0u, false};
  static constexpr flop_counts flops_per_element{functor_flops<F>(), 2 * functor_flops<F>()};

  template <class Call, class... Xs>
  constexpr auto forward(Call how, Xs... xs) const {
    using out_type = output_of<Call, Xs...>;
    using device = typename out_type::device;
    static_assert(
        gradus::detail::functor_takes<F, promote<typename Xs::value_type...>>,
        "exp, log, sqrt, sin, floor, tanh, sigmoid, pow, constant / x: the operand must have floating-point elements");
    auto& ctx = how.owner();
    const auto inputs = std::make_tuple(std::as_const(xs).view()...);
    out_type out = reuse<out_type>(ctx, broadcast_extents(gradus::detail::name_of(*this), xs.extents()...), xs...);
    std::apply([&](const auto&... in) { kernel<map, device>::forward(ctx, f, out.view(), in...); }, inputs);
    return out;
  }

  template <class Saved, class Grad, class... Sinks>
  constexpr void backward([[maybe_unused]] const Saved& saved, Grad grad, const Sinks&... sinks) const {
    if constexpr (returns_condition<F>) {
      return;
    } else if constexpr (is_sum_functor<F>) {
      (give_sum(grad, sinks), ...);
    } else {
      using device = typename Grad::device;
      auto& ctx = grad.owner();
      bool spare = grad.unique();  // no other reader: one operand's gradient may overwrite the output's
      // Braces evaluate from left to right, the order in which the kernel writes if one value is several operands.
      std::tuple<contribution<Grad, sink_tensor<Sinks>>...> targets{
          contribution<Grad, sink_tensor<Sinks>>(ctx, sinks, grad, spare)...};
      const auto in = saved_views(saved, std::index_sequence_for<Sinks...>{}, sinks...);
      std::apply(
          [&](auto&... slot) {
            kernel<map<differentiated>, device>::backward(ctx, differentiated{f}, std::as_const(grad).view(), in,
                                                          slot.place()...);
            (slot.finish(ctx, grad), ...);
          },
          targets);
    }
  }

 private:
  // The functor that backward evaluates on dual numbers of the saved values.
  using differentiated = std::conditional_t<has_derivative_from_output<F>, gradus::detail::from_output<F>, F>;

  template <class... Xs>
  using device_of = typename std::tuple_element_t<0, std::tuple<Xs...>>::device;
  template <class Call, class... Xs>
  using output_of = tensor<std::conditional_t<returns_condition<F>, bool,
                                              typename Call::template result<promote<typename Xs::value_type...>>>,
                           broadcast_shape<typename Xs::shape...>, device_of<Xs...>>;

  // The memory of an operand without other owners becomes the output's: the pass works in place.
  template <class Out, class X, class... Rest>
  static constexpr Out reuse(context<typename Out::device>& ctx, const extents_of<typename Out::shape>& extents, X& x,
                             Rest&... rest) {
    if constexpr (std::is_same_v<X, Out>) {
      if (x.unique()) return std::move(x);
    }
    if constexpr (sizeof...(Rest) == 0) return Out(ctx, extents);
    else return reuse<Out>(ctx, extents, rest...);
  }

  template <class S>
  struct sink_tensor_of;
  template <class T>
  struct sink_tensor_of<gradient_sink<T>> {
    using type = T;
  };
  template <class S>
  using sink_tensor = typename sink_tensor_of<S>::type;

  template <class Grad, class S>
  static constexpr void give_sum(const Grad& grad, const S& sink) {
    using X = sink_tensor<S>;
    if constexpr (is_floating<typename X::value_type>) {
      if (!sink) return;
      if constexpr (std::is_same_v<typename X::shape, typename Grad::shape>) sink.give(grad);
      else {
        auto to = sink.open(grad.owner());
        kernel<sum_to, typename X::device>::forward(grad.owner(), to.view(), grad.view(), to.accumulate);
      }
    }
  }

  // Where the kernel writes one operand's gradient: the slot, or a wide temporary that finish() sums into the slot.
  template <class Grad, class X>
  struct contribution {
    gradient_sink<X> sink;
    tensor<typename X::value_type, typename Grad::shape, typename Grad::device> wide{};
    typename X::value_type* data = nullptr;
    bool accumulate = false;
    bool in_place = false;

    constexpr contribution(context<typename X::device>& ctx, const gradient_sink<X>& s, Grad& grad, bool& spare)
        : sink(s) {
      if constexpr (is_floating<typename X::value_type>) {
        if (!sink) return;
        if constexpr (std::is_same_v<X, Grad>) {
          if (spare && sink.is_empty()) {
            spare = false;
            in_place = true;
            data = grad.data();
            return;
          }
        }
        if constexpr (std::is_same_v<typename X::shape, typename Grad::shape>) {
          auto to = sink.open(ctx);
          data = to.tensor.data();
          accumulate = to.accumulate;
        } else {
          wide = decltype(wide)(ctx, grad.extents(), category::temporary);
          data = wide.data();
        }
      }
    }
    constexpr auto place() const { return elementwise_target<typename X::value_type>{data, accumulate}; }
    constexpr void finish([[maybe_unused]] context<typename X::device>& ctx, [[maybe_unused]] Grad& grad) {
      if constexpr (std::is_same_v<X, Grad>) {
        if (in_place) sink.give(std::move(grad));
      }
      if constexpr (is_floating<typename X::value_type> && !std::is_same_v<typename X::shape, typename Grad::shape>) {
        if (!sink) return;
        auto to = sink.open(ctx);
        kernel<sum_to, typename X::device>::forward(ctx, to.view(), std::as_const(wide).view(), to.accumulate);
        wide = decltype(wide){};
      }
    }
  };

  template <std::size_t At, class S, class Saved>
  static constexpr auto saved_view(const Saved& saved, const S& sink) {
    if constexpr (is_linear_functor<F>) {
      using X = sink_tensor<S>;
      return view<const typename X::value_type, typename X::shape, typename X::device>(nullptr, sink.extents());
    } else if constexpr (has_derivative_from_output<F>) {
      return output(saved).view();
    } else {
      return input<At>(saved).view();
    }
  }
  template <class Saved, std::size_t... Is, class... S>
  static constexpr auto saved_views(const Saved& saved, std::index_sequence<Is...>, const S&... sinks) {
    return std::make_tuple(saved_view<Is>(saved, sinks)...);
  }
};

}  // namespace op::inline GRADUS_BUILD

/// Applies the functor `f` to the operands element by element, in one pass; their shapes broadcast (NumPy's rule). `f`
/// must accept scalars, packs and duals: write it with + - * /, comparisons, select() and the functions of
/// gradus::math. The gradient evaluates `f` on dual numbers.
template <class F, operand... Xs>
GRADUS_OF_BUILD constexpr auto map(F f, Xs&&... xs) {
  using T = promote<detail::functor_probe<Xs>...>;
  GRADUS_REQUIRE("map(f, x...): takes one to four operands", sizeof...(Xs) >= 1 && sizeof...(Xs) <= 4)
  GRADUS_REQUIRE("map(f, x...): the operands' shapes do not broadcast together", can_broadcast<shape_of<Xs>...>)
  GRADUS_REQUIRE(
      "map(f, x...): f must take one argument per operand, all of one deduced type: [](auto x, auto y) { ... }",
      detail::functor_takes_arguments<F, T, tensor_of<Xs>...>)
  {
#if !defined(__CUDACC__)
    if constexpr (is_floating<T>)
      if (false) f(detail::one_type<detail::functor_argument, Xs>()...);  // an error here has a short message
#endif
    return apply(op::map<F>{std::move(f)}, std::forward<Xs>(xs)...);
  }
}

}  // namespace gradus
