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
};

/// Copies of an operand's elements, where it does not go along with the output: laid out for a run of rows, or for a
/// part of one.
template <class S>
class run_operand {
 public:
  static constexpr index_t most = 1024;  ///< elements of a run

  // NOLINTNEXTLINE(modernize-use-equals-default): that would write zeros first
  run_operand() {}

  /// The operand as it goes along `rows` rows of `columns` elements, from `begin` on.
  GRADUS_INLINE const S* lay_out(const S* begin, index_t rows, index_t columns, index_t along_row,
                                 index_t to_next_row) {
    if (along_row == 1 && (rows == 1 || to_next_row == columns)) return begin;
    if (begin != of_ || rows * columns > laid_out_) fill(begin, rows, columns, along_row, to_next_row);
    return element_;
  }

 private:
  GRADUS_NOINLINE void fill(const S* begin, index_t rows, index_t columns, index_t along_row, index_t to_next_row) {
    for (index_t r = 0; r < rows; ++r) {
      const S* const from = begin + r * to_next_row;
      S* const to = element_ + r * columns;
      if (along_row == 1) {
        std::copy_n(from, columns, to);
      } else {  // whole blocks: what is too much, the next row overwrites
        S copies[block];
        std::fill_n(copies, block, *from);
        for (index_t i = 0; i < columns; i += block) std::copy_n(copies, block, to + i);
      }
    }
    of_ = begin;
    laid_out_ = rows * columns;
  }

  static constexpr index_t block = 32 / sizeof(S);
  alignas(64) S element_[most + block];
  const S* of_ = nullptr;
  index_t laid_out_ = 0;
};

/// Runs f(first element of the output, elements, operands...) over runs of the output, in which every operand goes
/// along from its first element on.
template <index_t Most, class... Ts, std::size_t... K, class F>
void for_runs(context<cpu>& ctx, const broadcast_axes<sizeof...(Ts), Most>& axes, std::index_sequence<K...>, const F& f,
              const Ts*... in) {
  constexpr index_t piece = 1024;
  const index_t columns = axes.extent[0], pieces = (columns + piece - 1) / piece;
  index_t rows = 1;
  for (index_t a = 1; a < axes.count; ++a) rows *= axes.extent[a];
  const bool all_go_along = ((axes.stride[K][0] == 1) && ...);
  parallel_elements(ctx, rows * pieces, (1 << 14) / std::min(columns, piece), [&](index_t first, index_t last) {
    std::tuple<run_operand<Ts>...> operands;
    index_t row = first / pieces, at = first % pieces * piece;  // in the row
    const index_t last_row = last / pieces, last_at = std::min(columns, last % pieces * piece);
    while (row < last_row || at < last_at) {
      auto begin = axes.begin_of(row);
      index_t left = std::min(axes.count < 2 ? 1 : axes.extent[1] - row % axes.extent[1],
                              last_row + (last_at > 0 ? 1 : 0) - row);  // rows until an outer axis goes on
      while (left > 0) {
        index_t together = 1, n = (row < last_row ? columns : last_at) - at;
        if (at == 0 && row < last_row && 2 * columns <= run_operand<char>::most) {
          together = std::min({left, last_row - row, run_operand<char>::most / columns});
          n = together * columns;
        } else if (!all_go_along) {
          n = std::min(n, run_operand<char>::most);
        }
        f(row * columns + at, n,
          std::get<K>(operands).lay_out(in + begin[K] + at * axes.stride[K][0], together, n / together,
                                        axes.stride[K][0], axes.stride[K][1])...);
        if (at += n; together > 1 || at == columns) {
          at = 0;
          row += together;
          left -= together;
          for (index_t k = 0; k < sizeof...(Ts); ++k) begin[k] += together * axes.stride[k][1];
        } else if (row == last_row && at == last_at) {
          return;
        }
      }
    }
  });
}

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

template <class F, class T, index_t Most, class... Ts>
void map_runs(context<cpu>& ctx, const F& functor, const broadcast_axes<sizeof...(Ts), Most>& axes, T* out,
              const Ts*... in) {
  const auto run = [&](index_t first, index_t n, const Ts*... from) {
    const F f = functor;
    T* const to = out + first;
    if constexpr (is_floating<T>) {
      using C = compute_type<T>;
      for_packs<C>(n, [&](index_t i, auto which) {
        const map_number<F, T> y(f(map_number<F, T>(load<C>(from + i, which))...));
        store(pack<C>(y), to + i, which);
      });
    } else if constexpr (gradus::detail::functor_takes<F, T>) {
      // Integers are computed in the wider of i32 and what they are stored in.
      using I = std::conditional_t<((sizeof(Ts) == 8) || ...), std::int64_t, std::int32_t>;
      for (index_t i = 0; i < n; ++i) to[i] = static_cast<T>(f(static_cast<I>(from[i])...));
    }
  };
  for_runs(ctx, axes, std::index_sequence_for<Ts...>{}, run, in...);
}

/// Gradients of operands, each to a place of the output's size. What operands are is not read where F is linear.
/// @tparam In a std::tuple of pointers to the operands
/// @tparam To a std::tuple of elementwise_targets
template <class F, class T, index_t Most, class In, class To>
void map_runs_backward(context<cpu>& ctx, const F& functor, const broadcast_axes<std::tuple_size_v<In>, Most>& axes,
                       const T* grad, In in, To to) {
  using C = compute_type<T>;
  using D = dual<map_number<F, T>, static_cast<int>(std::tuple_size_v<In>)>;
  const auto operand = [](const auto* x, index_t i, auto which) {
    if constexpr (is_linear_functor<F>) return pack<C>(1);  // the derivatives do not depend on it
    else return load<C>(x + i, which);
  };
  [&]<std::size_t... K>(std::index_sequence<K...> numbers) {
    const auto run = [&](index_t first, index_t n, [[maybe_unused]] const auto*... from) {
      const F f = functor;
      const T* const dy = grad + first;
      const To targets{{std::get<K>(to).data == nullptr ? nullptr : std::get<K>(to).data + first,
                        std::get<K>(to).accumulate}...};
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
    // Of a linear function only the gradient is read, as the one operand, which goes along.
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

/// One vectorised pass over the output.
template <class F>
struct kernel<op::map<F>, cpu> {
  template <class T, class Out, class... Ts, class... Ins>
  static void forward([[maybe_unused]] context<cpu>& ctx, [[maybe_unused]] const F& f, view<T, Out> out,
                      view<const Ts, Ins>... in) {
    if constexpr (!GRADUS_GPU_PASS)
      cpu_kit::map_runs(ctx, f, cpu_kit::axes_of<Out, Ins...>(), out.data(), in.data()...);
  }
  template <class T, class Out, class... Ts, class... Ins, class... Gs>
  static void backward([[maybe_unused]] context<cpu>& ctx, [[maybe_unused]] const F& f, view<const T, Out> grad,
                       std::tuple<view<const Ts, Ins>...> in, elementwise_target<Gs>... to) {
    if constexpr (!GRADUS_GPU_PASS)
      cpu_kit::map_runs_backward(ctx, f, cpu_kit::axes_of<Out, Ins...>(), grad.data(),
                                 std::apply([](const auto&... x) { return std::tuple(x.data()...); }, in),
                                 std::tuple(to...));
  }
};

}  // namespace gradus
