#pragma once
// The CPU kernels of reductions.

#include <algorithm>
#include <cstdint>
#include <utility>

#include "../../core/config.hpp"
#include "../../cpu/rows.hpp"
#include "../broadcast/cpu_runs.hpp"
#include "cpu_extremes.hpp"
#include "cpu_sums.hpp"
#include "reduce.hpp"

namespace gradus {

namespace cpu_kit::inline GRADUS_BUILD {

/// The gradient of a sum at element x(i), from the output's gradient g.
template <class C>
struct sum_derivative {
  C factor;
  GRADUS_INLINE pack<C> operator()(index_t, auto, pack<C> g) const { return g * pack<C>(factor); }
};
/// The gradient of a variance at element x(i), from the output's gradient g and the mean.
template <class C, class T>
struct variance_derivative {
  const T* x;
  C factor;
  GRADUS_INLINE pack<C> operator()(index_t i, auto which, pack<C> g, pack<C> mean) const {
    return pack<C>(factor) * g * (load<C>(x + i, which) - mean);
  }
};

/// dx (+)= value(i, lanes, elements of x...): by row if rows are reduced and long, otherwise with expanded operands.
template <class T, class Value, index_t Most, class... Ts>
void spread(context<cpu>& ctx, const reduction_grid& grid, const broadcast_axes<sizeof...(Ts), Most>& axes, T* dx,
            bool accumulate, const Value& value, const Ts*... per_output) {
  using C = compute_type<T>;
  if (grid.inner_reduced && grid.inner >= 16 * lanes<C>)
    for_rows(ctx, grid.out_rows * grid.steps * grid.pieces, std::min(grid.inner, grid.piece), 1 << 14,
             [=, &grid](index_t u) {
               const index_t r = u / grid.pieces, begin = u % grid.pieces * grid.piece, output = r / grid.steps;
               const index_t start = grid.row(output, r % grid.steps) + begin;
               const auto run = [&](const auto&... along) {
                 for_packs<C>(std::min(grid.piece, grid.inner - begin), [&](index_t i, auto which) {
                   put(value(start + i, which, along...), dx + start + i, accumulate, which);
                 });
               };
               run(pack<C>(static_cast<C>(per_output[output]))...);
             });
  else
    for_runs(
        ctx, axes, std::index_sequence_for<Ts...>{},
        [=](index_t first, index_t n, const Ts*... along) {
          for_packs<C>(n, [&](index_t i, auto which) {
            put(value(first + i, which, load<C>(along + i, which)...), dx + first + i, accumulate, which);
          });
        },
        per_output...);
}

}  // namespace cpu_kit::inline GRADUS_BUILD

template <class Axes, bool Keep, bool Mean>
struct kernel<op::sum<Axes, Keep, Mean>, cpu> {
  template <class TY, class Small, class T, class Big>
  static void forward(context<cpu>& ctx, view<TY, Small> y, view<const T, Big> x) {
    cpu_kit::sum_into(ctx, cpu_kit::reduction_of(x, y), y.data(), x.data(), false, factor(x, y));
  }
  template <class T, class Big, class TY, class Small>
  static void backward(context<cpu>& ctx, view<T, Big> dx, bool accumulate, view<const TY, Small> dy) {
    const cpu_kit::sum_derivative<compute_type<T>> value{static_cast<compute_type<T>>(factor(dx, dy))};
    cpu_kit::spread(ctx, cpu_kit::reduction_of(dx, dy), cpu_kit::axes_of(dx.extents(), dy.extents()), dx.data(),
                    accumulate, value, dy.data());
  }

 private:
  static double factor(const auto& big, const auto& result) {
    const index_t count = big.extents().size / result.extents().size;
    return Mean ? 1.0 / static_cast<double>(count) : 1.0;
  }
};

template <class Axes, bool Keep, bool Largest>
struct kernel<op::extremum<Axes, Keep, Largest>, cpu> {
  template <class T, class Small, class Big>
  static void forward(context<cpu>& ctx, view<T, Small> y, view<std::int32_t, Small> at, view<const T, Big> x) {
    static_assert(Big::size / Small::size < (index_t{1} << 31),
                  "max, min, argmax: more elements than an i32 can index");
    cpu_kit::find_extremes<Largest>(ctx, cpu_kit::reduction_of(x, y), y.data(), at.data(), x.data());
  }
  template <class T, class Big, class TY, class Small>
  static void backward(context<cpu>& ctx, view<T, Big> dx, view<const TY, Small> dy,
                       view<const std::int32_t, Small> at) {
    cpu_kit::add_at_places(ctx, cpu_kit::reduction_of(dx, dy), dx.data(), dy.data(), at.data());
  }
};

template <class Axes, bool Keep>
struct kernel<op::variance<Axes, Keep>, cpu> {
  template <class TY, class Small, class C, class T, class Big>
  static void forward(context<cpu>& ctx, view<TY, Small> y, view<C, Small> mean, view<const T, Big> x) {
    cpu_kit::variance_into(ctx, cpu_kit::reduction_of(x, y), y.data(), mean.data(), x.data());
  }
  template <class TDX, class Big, class TY, class Small, class T, class C>
  static void backward(context<cpu>& ctx, view<TDX, Big> dx, bool accumulate, view<const TY, Small> dy,
                       view<const T, Big> x, view<const C, Small> mean) {
    const cpu_kit::variance_derivative<C, T> value{
        x.data(), static_cast<C>(2.0 / static_cast<double>(x.extents().size / dy.extents().size))};
    cpu_kit::spread(ctx, cpu_kit::reduction_of(x, dy), cpu_kit::axes_of(x.extents(), dy.extents(), mean.extents()),
                    dx.data(), accumulate, value, dy.data(), mean.data());
  }
};

}  // namespace gradus
