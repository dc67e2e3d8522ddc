#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>

#include "../../core/config.hpp"
#include "../../core/shape_algebra.hpp"
#include "../../cpu/coarse_pack.hpp"
#include "../../cpu/rows.hpp"
#include "../../cpu/simd_math.hpp"
#include "../broadcast/cpu.hpp"
#include "elementwise.hpp"

namespace gradus {

namespace cpu_kit::inline GRADUS_BUILD {

/// The axes of a broadcast's output, from the innermost on, and how operands go along them. Neighbouring axes that
/// every operand goes along as one are one: without broadcasting there is one.
template <index_t Operands, index_t Most>
struct broadcast_axes {
  index_t count = 0;
  index_t extent[Most] = {};
  index_t stride[Operands][Most] = {};  ///< 0 where one element serves all; otherwise 1 along the innermost axis

  /// Puts an axis around the others.
  constexpr void surround(index_t size, const std::array<index_t, Operands>& by) {
    bool as_one = count > 0;
    for (index_t k = 0; k < Operands; ++k) as_one = as_one && by[k] == stride[k][count - 1] * extent[count - 1];
    if (as_one) {
      extent[count - 1] *= size;
    } else {
      for (index_t k = 0; k < Operands; ++k) stride[k][count] = by[k];
      extent[count++] = size;
    }
  }

  /// Where operands begin in a row of the innermost axis.
  GRADUS_NOINLINE std::array<index_t, Operands> begin_of(index_t row) const {
    std::array<index_t, Operands> begin{};
    for (index_t a = 1; a < count; row /= extent[a++])
      for (index_t k = 0; k < Operands; ++k) begin[k] += row % extent[a] * stride[k][a];
    return begin;
  }

  /// Runs f(first element of the output, elements, where operands begin) over pieces of rows of the innermost axis.
  template <class F>
  void for_runs(context<cpu>& ctx, const F& f) const {
    constexpr index_t piece = 1024;
    const index_t columns = extent[0], pieces = (columns + piece - 1) / piece;
    index_t rows = 1;
    for (index_t a = 1; a < count; ++a) rows *= extent[a];
    parallel_elements(ctx, rows * pieces, (1 << 14) / std::min(columns, piece), [&](index_t first, index_t last) {
      index_t row = first / pieces, at = first % pieces;
      auto begin = begin_of(row);
      index_t after = count < 2 ? 1 : extent[1] - row % extent[1];  // rows until an outer axis goes on
      for (index_t units; first < last; first += units, at = 0) {
        units = std::min(last - first, pieces - at);
        auto from = begin;
        for (index_t k = 0; k < Operands; ++k) from[k] += at * piece * stride[k][0];
        f(row * columns + at * piece, std::min(columns, (at + units) * piece) - at * piece, from);
        ++row;
        if (--after == 0) begin = begin_of(row), after = extent[1];
        else
          for (index_t k = 0; k < Operands; ++k) begin[k] += stride[k][1];
      }
    });
  }
};

/// The axes of Out, to which operands of shapes Ins broadcast.
template <class Out, class... Ins>
consteval auto axes_of() {
  constexpr index_t operands = sizeof...(Ins);
  broadcast_axes<operands, std::max<index_t>(8, Out::rank)> axes;  // one type for all ranks of up to 8
  std::array<index_t, operands> next;
  next.fill(1);
  for (index_t i = 0; i < Out::rank; ++i) {
    const std::array<index_t, operands> extents{gradus::detail::padded_extent<Ins>(i)...};
    std::array<index_t, operands> by{};
    for (index_t k = 0; k < operands; ++k) {
      if (extents[k] != 1) by[k] = next[k];
      next[k] *= extents[k];
    }
    if (gradus::detail::padded_extent<Out>(i) != 1) axes.surround(gradus::detail::padded_extent<Out>(i), by);
  }
  if (axes.count == 0) axes.surround(1, next);  // one element
  return axes;
}

/// What F is evaluated on, where its result is stored as T.
template <class F, class T>
using map_number = std::conditional_t<sizeof(T) == 2 && has_coarse_form<F>, coarse_pack, pack<compute_type<T>>>;

/// A pack of copies of an operand's one element, to be read as if the operand went along.
template <class S, index_t N>
GRADUS_INLINE const S* along(const S* from, index_t stride, S (&copies)[N]) {
  if (stride != 0) return from;
  for (auto& c : copies) c = *from;
  return copies;
}

/// Runs f(strides along the innermost axis...): as constants where each is 1, which is mostly so.
template <index_t Operands, index_t Most, std::size_t... K, class F>
GRADUS_INLINE void with_strides(const broadcast_axes<Operands, Most>& axes, std::index_sequence<K...>, const F& f) {
  if (((axes.stride[K][0] == 1) && ...)) f(std::integral_constant<index_t, (static_cast<void>(K), 1)>{}...);
  else if constexpr (Operands > 1) f(axes.stride[K][0]...);
}

template <class F, class T, index_t Most, class... Ts, std::size_t... K>
void map_runs(context<cpu>& ctx, const F& functor, const broadcast_axes<sizeof...(Ts), Most>& axes,
              std::index_sequence<K...> numbers, T* out, const Ts*... in) {
  axes.for_runs(ctx, [&](index_t first, index_t n, const std::array<index_t, sizeof...(Ts)>& at) {
    with_strides(axes, numbers, [&](auto... stride) {
      const F f = functor;
      T* const to = out + first;
      if constexpr (is_floating<T>) {
        using C = compute_type<T>;
        std::tuple<Ts[lanes<C>]...> copies;
        const std::tuple<const Ts*...> from{along(in + at[K], stride, std::get<K>(copies))...};
        for_packs<C>(n, [&](index_t i, auto which) {
          const map_number<F, T> y(f(map_number<F, T>(load<C>(std::get<K>(from) + i * stride, which))...));
          store(pack<C>(y), to + i, which);
        });
      } else if constexpr (gradus::detail::functor_takes<F, T>) {
        // Integers are computed in the wider of i32 and what they are stored in.
        using I = std::conditional_t<((sizeof(Ts) == 8) || ...), std::int64_t, std::int32_t>;
        const std::tuple<const Ts*...> from{in + at[K]...};
        for (index_t i = 0, size = n; i < size; ++i)
          to[i] = static_cast<T>(f(static_cast<I>(std::get<K>(from)[i * stride])...));
      }
    });
  });
}

/// Gradients of operands, each to a place of the output's size. What operands are is not read where F is linear.
template <class F, class T, index_t Most, class... Ts, class... Gs, std::size_t... K>
void map_runs_backward(context<cpu>& ctx, const F& functor, const broadcast_axes<sizeof...(Ts), Most>& axes,
                       std::index_sequence<K...> numbers, const T* grad, std::tuple<const Ts*...> in,
                       elementwise_target<Gs>... to) {
  using C = compute_type<T>;
  using D = dual<map_number<F, T>, static_cast<int>(sizeof...(Ts))>;
  const auto run = [&](index_t first, index_t n, auto... operand) {
    const F f = functor;
    const T* const dy = grad + first;
    const std::tuple<elementwise_target<Gs>...> targets{
        {to.data == nullptr ? nullptr : to.data + first, to.accumulate}...};
    for_packs<C>(n, [&](index_t i, auto which) {
      const D value(f(D(map_number<F, T>(operand(i, which)), static_cast<int>(K))...));
      const pack<C> g = load<C>(dy + i, which);
      const auto give = [&]<class G>(const elementwise_target<G>& target, const auto& partial) {
        if constexpr (is_floating<G>)
          if (target.data != nullptr)
            put(gradus::detail::gradient_through<F>(g, pack<C>(partial)), target.data + i, target.accumulate, which);
      };
      (give(std::get<K>(targets), value.partial[K]), ...);
    });
  };
  axes.for_runs(ctx, [&](index_t first, index_t n, const std::array<index_t, sizeof...(Ts)>& at) {
    if constexpr (is_linear_functor<F>) {
      const auto any = [](index_t, auto) { return pack<C>(1); };  // the derivatives do not depend on it
      run(first, n, (static_cast<void>(K), any)...);
    } else {
      with_strides(axes, numbers, [&](auto... stride) {
        std::tuple<Ts[lanes<C>]...> copies;
        const auto operand = [](const auto* from, auto step) {
          return [=](index_t i, auto which) { return load<C>(from + i * step, which); };
        };
        run(first, n, operand(along(std::get<K>(in) + at[K], stride, std::get<K>(copies)), stride)...);
      });
    }
  });
}

}  // namespace cpu_kit::inline GRADUS_BUILD

/// One vectorised pass over the output.
template <class F>
struct kernel<op::map<F>, cpu> {
  template <class T, class Out, class... Ts, class... Ins>
  static void forward([[maybe_unused]] context<cpu>& ctx, [[maybe_unused]] const F& f, view<T, Out> out,
                      view<const Ts, Ins>... in) {
    if constexpr (!GRADUS_GPU_PASS)
      cpu_kit::map_runs(ctx, f, cpu_kit::axes_of<Out, Ins...>(), std::index_sequence_for<Ts...>{}, out.data(),
                        in.data()...);
  }
  template <class T, class Out, class... Ts, class... Ins, class... Gs>
  static void backward([[maybe_unused]] context<cpu>& ctx, [[maybe_unused]] const F& f, view<const T, Out> grad,
                       std::tuple<view<const Ts, Ins>...> in, elementwise_target<Gs>... to) {
    if constexpr (!GRADUS_GPU_PASS)
      cpu_kit::map_runs_backward(ctx, f, cpu_kit::axes_of<Out, Ins...>(), std::index_sequence_for<Ts...>{}, grad.data(),
                                 std::apply([](const auto&... x) { return std::make_tuple(x.data()...); }, in), to...);
  }
};

}  // namespace gradus
