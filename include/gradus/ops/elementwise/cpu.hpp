#pragma once
// The CPU kernels of map(): runs the functor, and its derivatives, on packs.

#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>

#include "../../core/config.hpp"
#include "../../cpu/coarse_pack.hpp"
#include "../../cpu/rows.hpp"
#include "../../cpu/simd_log1p.hpp"
#include "../../cpu/simd_math.hpp"
#include "../../cpu/simd_rounding.hpp"
#include "../../cpu/simd_trigonometry.hpp"
#include "../broadcast/cpu.hpp"
#include "../broadcast/cpu_runs.hpp"
#include "elementwise.hpp"

namespace gradus {

namespace cpu_kit::inline GRADUS_BUILD {

/// The number type that F computes results of type T with.
template <class F, class T>
using map_number = std::conditional_t<sizeof(T) == 2 && has_coarse_form<F>, coarse_pack, pack<compute_type<T>>>;

/// The type whose numbers F computes with: of the results T, or of the operands Ts if it returns conditions.
template <class F, class T, class... Ts>
using map_value =
    typename std::conditional_t<returns_condition<F>, std::type_identity<promote<Ts...>>, std::type_identity<T>>::type;

template <class F, class T, index_t Most, class... Ts>
void map_runs(context<cpu>& ctx, const F& functor, const broadcast_axes<sizeof...(Ts), Most>& axes, T* out,
              const Ts*... in) {
  using V = map_value<F, T, Ts...>;
  const auto run = [&](index_t first, index_t n, const Ts*... from) {
    const F f = functor;
    T* const to = out + first;
    if constexpr (is_floating<V>) {
      using C = compute_type<V>;
      using number = map_number<F, V>;
      for_packs<C>(n, [&](index_t i, auto which) {
        if constexpr (returns_condition<F>)
          store(select(f(load<C>(from + i, which)...), pack<C>(1), pack<C>(0)), to + i, which);
        else store(pack<C>(number(f(number(load<C>(from + i, which))...))), to + i, which);
      });
    } else if constexpr (gradus::detail::functor_takes<F, V>) {
      // Integers are computed in 32 bits, or in 64 if an operand has 64.
      using Whole = std::conditional_t<((sizeof(Ts) == 8) || ...), std::int64_t, std::int32_t>;
      for (index_t i = 0; i < n; ++i) to[i] = static_cast<T>(f(static_cast<Whole>(from[i])...));
    }
  };
  for_runs(ctx, axes, std::index_sequence_for<Ts...>{}, run, in...);
}

/// Gradients of operands, each in memory of the output's shape. Operands of a linear F are not read.
/// @tparam In a std::tuple of pointers to the operands
/// @tparam To a std::tuple of elementwise_targets
template <class F, class T, index_t Most, class In, class To>
void map_runs_backward(context<cpu>& ctx, const F& functor, const broadcast_axes<std::tuple_size_v<In>, Most>& axes,
                       const T* grad, In in, To to) {
  using C = compute_type<T>;
  using D = dual<map_number<F, T>, static_cast<int>(std::tuple_size_v<In>)>;
  const auto operand = [](const auto* x, index_t i, auto which) {
    if constexpr (is_linear_functor<F>) return pack<C>(1);  // not used by the derivatives
    else return load<C>(x + i, which);
  };
  [&]<std::size_t... K>(std::index_sequence<K...> numbers) {
    const auto run = [&](index_t first, index_t n, [[maybe_unused]] const auto*... from) {
      const F f = functor;
      const T* const dy = grad + first;
      const To targets{
          {std::get<K>(to).data == nullptr ? nullptr : std::get<K>(to).data + first, std::get<K>(to).accumulate}...};
      for_packs<C>(n, [&](index_t i, auto which) {
        const D value(f(D(map_number<F, T>(operand(from, i, which)), static_cast<int>(K))...));
        const pack<C> g = load<C>(dy + i, which);
        const auto give = [&]<class G>(const elementwise_target<G>& target, const auto& partial) {
          if constexpr (is_floating<G>)
            if (target.data != nullptr)
              put(gradus::detail::gradient_through<F>(g, pack<C>(partial)), target.data + i, target.accumulate, which);
        };
        (give(std::get<K>(targets), value.partial[K]), ...);
      });
    };
    // A linear functor reads only the gradient, so runs are as long as the gradient's.
    if constexpr (is_linear_functor<F>) {
      index_t size = 1;
      for (index_t a = 0; a < axes.count; ++a) size *= axes.extent[a];
      broadcast_axes<1, 2> flat;
      flat.surround(size, {1});
      for_runs(
          ctx, flat, std::index_sequence<0>{},
          [&](index_t first, index_t n, const T* from) { run(first, n, (static_cast<void>(K), from)...); }, grad);
    } else {
      for_runs(ctx, axes, numbers, run, std::get<K>(in)...);
    }
  }(std::make_index_sequence<std::tuple_size_v<In>>{});
}

}  // namespace cpu_kit::inline GRADUS_BUILD

template <class F>
struct kernel<op::map<F>, cpu> {
  template <class T, class Out, class... Ts, class... Ins>
  static void forward([[maybe_unused]] context<cpu>& ctx, [[maybe_unused]] const F& f, view<T, Out> out,
                      view<const Ts, Ins>... in) {
    if constexpr (!GRADUS_GPU_PASS)
      cpu_kit::map_runs(ctx, f, cpu_kit::axes_of(out.extents(), in.extents()...), out.data(), in.data()...);
  }
  template <class T, class Out, class... Ts, class... Ins, class... Gs>
  static void backward([[maybe_unused]] context<cpu>& ctx, [[maybe_unused]] const F& f, view<const T, Out> grad,
                       std::tuple<view<const Ts, Ins>...> in, elementwise_target<Gs>... to) {
    if constexpr (!GRADUS_GPU_PASS)
      std::apply(
          [&](const auto&... x) {
            cpu_kit::map_runs_backward(ctx, f, cpu_kit::axes_of(grad.extents(), x.extents()...), grad.data(),
                                       std::tuple(x.data()...), std::tuple(to...));
          },
          in);
  }
};

}  // namespace gradus
