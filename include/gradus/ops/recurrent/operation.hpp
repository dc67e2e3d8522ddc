#pragma once
// The operation of lstm and gru: all steps over time, and their gradient (backpropagation through time). The products
// with h are matmul's and linear's; its own kernels compute the cells of one step.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "../../autodiff/casting.hpp"
#include "../../core/config.hpp"
#include "../../core/cost.hpp"
#include "../../core/shape_algebra.hpp"
#include "../matmul/matmul.hpp"
#include "../slice/slice.hpp"
#include "cells.hpp"
#include "options.hpp"

namespace gradus::op::inline GRADUS_BUILD {

/// The cells of one step: kernels forward(ctx, recurrent_step, recurrent_forward) and backward(ctx, recurrent_step,
/// recurrent_backward).
template <class Cell>
struct recurrent_cells {};

/// The family of lstm and gru, for checkpoint policies.
struct recurrent {
  static constexpr std::string_view name = "recurrent";
};

/// All steps of a recurrent layer. Operands: gates [B, T, G*H], w [H, G*H], for gru a bias [G*H], and none or all of
/// the states [B, H] before the first step. Result: y [B, T, H]; or, if it also returns the last memory, [B, T + 1, H]
/// of the type of the memory. That is float for 16-bit gates: a cell adds up over all steps, and bf16 would lose what
/// is below 1/256 of it.
///
/// The activated gates overwrite `gates` if nothing else reads it; in backward their gradients overwrite them.
template <class Cell, class D, bool ReturnsMemory>
struct recurrence {
  recurrent_options<D> options;

  using family = recurrent;
  static constexpr std::string_view name = Cell::name;
  static constexpr op_precision precision = op_precision::low;
  static constexpr unsigned cast_operands = 0b11;
  static constexpr save_rule saves{Cell::has_bias ? 0b1010 : 0b1110, true};  // w, the states and y

  template <class X, class W, class... Rest>
  static constexpr flop_counts flops() {
    constexpr index_t forward = 2 * X::size * W::shape::extent(0) + Cell::elementwise_flops * (X::size / Cell::gates);
    return {forward, 2 * forward};
  }

  /// The statistics of forward, which backward reads: the activated gates, and the memory after each step.
  template <class Gates, class Memories>
  struct activations {
    Gates gates;
    Memories memories;
    static constexpr std::size_t bytes = Gates::bytes + Memories::bytes;
    constexpr auto parts() const { return std::tie(gates, memories); }
  };

  template <class Call, class X, class W, class... Rest>
  constexpr auto forward(Call how, X gates, const W& w, const Rest&... rest) const {
    using of = types<X, W>;
    using T = typename X::value_type;
    using N = typename of::number;
    using Y = typename of::result;
    auto& ctx = how.owner();
    const auto operands = std::tie(rest...);
    const steps at(options, gates.extents(), w.extents());
    check_states<first_state>(at, operands);
    Y y(ctx, at.template extents<Y>(ReturnsMemory));
    auto of_h = at.template make<typename of::template product<N>>(ctx);
    auto h = make_state<typename of::template state<T>>(ctx, at, operand_or_none<first_state>(operands));
    auto memory = make_state<typename of::carried>(ctx, at, operand_or_none<first_state + 1>(operands));
    const auto run = [&](T* activated, N* memories) {
      const recurrent_forward<T, typename Y::value_type> arrays{
          .gates = at.rows(std::as_const(gates).data(), Cell::gates),
          .of_h = std::as_const(of_h).data(),
          .h = h.data(),
          .memory = memory.data(),
          .y = at.rows(y.data(), 1, ReturnsMemory),
          .activated = at.rows(activated, Cell::gates),
          .memories = at.rows(memories)};
      for (index_t i = 0; i < at.time; ++i) {
        multiply<typename Call::products>(ctx, of_h, std::as_const(h), w, operands);
        kernel<recurrent_cells<Cell>, D>::forward(ctx, at.step(i), arrays);
      }
      if constexpr (ReturnsMemory)
        kernel<move_block, D>::forward(ctx, y.data(), std::as_const(memory).data(), at.last_row(true), false);
    };
    if constexpr (Call::saves_statistics) {
      using kept_type = activations<X, typename of::template all_steps<N>>;
      kept_type kept{memory_of(ctx, gates), at.template make<decltype(kept_type::memories)>(ctx, category::activation)};
      if constexpr (D::computes) run(kept.gates.data(), kept.memories.data());
      return with_statistics<Y, kept_type>{std::move(y), std::move(kept)};
    } else {
      if constexpr (D::computes) run(nullptr, nullptr);
      return y;
    }
  }

  template <class Saved, class Y, class X, class W, class... Rest>
  constexpr void backward(const Saved& saved, const Y& dy, const gradient_sink<X>& dgates, const gradient_sink<W>& dw,
                          const gradient_sink<Rest>&... drest) const {
    auto kept = statistics(saved);  // the only owner, not read again: gradients overwrite the gates
    using Gates = decltype(kept.gates);
    using of = types<Gates, W>;
    using T = typename Gates::value_type;
    using TY = typename Y::value_type;
    using N = typename of::number;
    auto& ctx = dy.owner();
    const auto sinks = std::tie(drest...);
    const steps at(options, kept.gates.extents(), dw.extents());
    const auto first_h = make_state<typename of::template state<TY>>(ctx, at, saved_or_none<0, Rest...>(saved));
    const auto first_memory = make_state<typename of::carried>(ctx, at, saved_or_none<1, Rest...>(saved));
    auto dh = make_state<typename of::template state<N>>(ctx, at, not_saved{}, category::gradient);
    auto dmemory = make_state<typename of::carried>(ctx, at, not_saved{}, category::gradient);
    auto of_h = at.template make<typename of::template product<T>>(ctx);
    typename of::template all_steps<T> h_before;
    if (dw) h_before = at.template make<decltype(h_before)>(ctx);
    Gates all_of_h;
    if (!Cell::shares_gradient && (dw || is_wanted<0>(sinks))) all_of_h = at.template make<Gates>(ctx);
    const bool wants_dh = is_wanted<first_state>(sinks);
    const auto run = [&] {
      const recurrent_backward<T, TY> arrays{.dy = at.rows(dy.data(), 1, ReturnsMemory),
                                             .y = at.rows(output(saved).data(), 1, ReturnsMemory),
                                             .memories = at.rows(std::as_const(kept.memories).data()),
                                             .first_h = first_h.data(),
                                             .first_memory = first_memory.data(),
                                             .gates = at.rows(kept.gates.data(), Cell::gates),
                                             .of_h = of_h.data(),
                                             .all_of_h = at.rows(all_of_h ? all_of_h.data() : nullptr, Cell::gates),
                                             .h_before = at.rows(h_before ? h_before.data() : nullptr),
                                             .dh = dh.data(),
                                             .dmemory = dmemory.data()};
      if constexpr (ReturnsMemory)
        kernel<move_block, D>::forward(ctx, dmemory.data(), dy.data(), at.last_row(false), false);
      for (index_t i = at.time; i-- > 0;) {
        kernel<recurrent_cells<Cell>, D>::backward(ctx, at.step(i), arrays);
        if (i > 0 || wants_dh)
          kernel<matrix_product<false, false>, D>::backward(gradient_of<0>{}, sums_of<typename Saved::products>{}, ctx,
                                                            dh.view(), true, std::as_const(of_h).view(),
                                                            input<1>(saved).view());
      }
    };
    if constexpr (D::computes) run();
    weight_gradients<typename Saved::products>(ctx, std::as_const(Cell::shares_gradient ? kept.gates : all_of_h),
                                               std::as_const(h_before), dw, drest...);
    if (wants_dh) give<first_state>(sinks, dh);
    if (is_wanted<first_state + 1>(sinks)) give<first_state + 1>(sinks, dmemory);
    if (dgates) dgates.give(std::move(kept.gates));
  }

 private:
  static constexpr std::size_t first_state = Cell::has_bias ? 1 : 0;  // of the operands after w

  // FP8's rounding errors would add up over the steps: these products are in the type of the operands.
  template <class Products>
  using sums_of = accumulate_in<std::conditional_t<std::is_same_v<Products, fp8_products>, float, Products>>;

  // Stands in for an absent state.
  template <class T>
  struct no_state {
    static constexpr T* data() { return nullptr; }
  };
  template <class X, class W>
  struct types {
    using number = compute_type<typename X::value_type>;
    static constexpr index_t batch = X::shape::extent_in_type(0), time = X::shape::extent_in_type(1);
    static constexpr index_t width = W::shape::extent(0);
    template <class T>
    using state = tensor<T, shape<batch, width>, D>;
    using carried = std::conditional_t<Cell::carries_memory, state<number>, no_state<number>>;
    template <class T>
    using product = tensor<T, shape<batch, Cell::gates * width>, D>;
    template <class T>
    using all_steps = tensor<T, shape<batch, time, width>, D>;
    using result = std::conditional_t<ReturnsMemory, tensor<number, shape<batch, time + 1, width>, D>,
                                      all_steps<typename X::value_type>>;
  };

  // The extents at run time, and the order of the steps.
  struct steps {
    index_t batch, time, width;
    bool reversed;
    const std::int32_t* lengths;

    constexpr steps(const recurrent_options<D>& how, const auto& of_gates, const auto& of_w)
        : batch(of_gates.extent(0)),
          time(of_gates.extent(1)),
          width(of_w.extent(0)),
          reversed(how.reversed),
          lengths(how.lengths.data()) {}
    constexpr recurrent_step step(index_t i) const {
      const index_t before = i == 0 ? 0 : i - 1;
      return {batch, width, reversed ? time - 1 - i : i, reversed ? time - 1 - before : before, i == 0, lengths};
    }
    /// An array [B, T + more, columns * H].
    template <class T>
    constexpr sequence<T> rows(T* data, index_t columns = 1, index_t more = 0) const {
      return {data, columns * width, (time + more) * columns * width};
    }
    /// Moves the last memory to its row of the result, or its gradient from there.
    constexpr block_move last_row(bool to_result) const {
      const index_t at = time * width, stride = at + width;
      return to_result ? block_move{batch, width, at, stride, 0, width}
                       : block_move{batch, width, 0, width, at, stride};
    }
    /// The extents of a tensor [B, ...] or [B, T + more, ...].
    template <class X>
    constexpr extents_of<typename X::shape> extents(index_t more = 0) const {
      return extents_from<typename X::shape>([&] {
        auto all = X::shape::extents;
        all[0] = batch;
        if (X::rank == 3) all[1] = time + more;
        return all;
      });
    }
    template <class X>
    constexpr X make(context<D>& ctx, category what = category::temporary) const {
      return X(ctx, extents<X>(), what);
    }
  };

  template <std::size_t At, class... Rest>
  static constexpr decltype(auto) operand_or_none(const std::tuple<const Rest&...>& operands) {
    if constexpr (At < sizeof...(Rest)) return std::get<At>(operands);
    else return not_saved{};
  }
  // State number At.
  template <std::size_t At, class... Rest, class Saved>
  static constexpr decltype(auto) saved_or_none(const Saved& saved) {
    if constexpr (first_state + At < sizeof...(Rest)) return input<2 + first_state + At>(saved);
    else return not_saved{};
  }
  template <std::size_t At, class... Rest>
  static constexpr void check_states(const steps& at, const std::tuple<const Rest&...>& operands) {
    if constexpr (At < sizeof...(Rest)) {
      check_extents_meet(name, 0, at.batch, std::get<At>(operands).extent(0));
      check_states<At + 1>(at, operands);
    }
  }
  template <std::size_t At, class... Rest>
  static constexpr bool is_wanted(const std::tuple<const gradient_sink<Rest>&...>& sinks) {
    if constexpr (At < sizeof...(Rest)) return static_cast<bool>(std::get<At>(sinks));
    else return false;
  }
  template <std::size_t At, class... Rest, class State>
  static constexpr void give(const std::tuple<const gradient_sink<Rest>&...>& sinks, State& gradient) {
    if constexpr (At < sizeof...(Rest)) std::get<At>(sinks).give(std::move(gradient));
  }

  // Memory for the activated gates: the gates' own, if nothing else reads them.
  template <class X>
  static constexpr X memory_of(context<D>& ctx, const X& gates) {
    if (gates.unique()) return gates;
    return X(ctx, gates.extents());
  }
  // A state with the elements of `from`, converted; zeros if there is none.
  template <class State, class From>
  static constexpr State make_state(context<D>& ctx, const steps& at, [[maybe_unused]] const From& from,
                                    category what = category::temporary) {
    if constexpr (!is_tensor<State>) {
      return {};
    } else {
      auto to = at.template make<State>(ctx, what);
      const index_t n = to.extents().size;
      if constexpr (is_tensor<From>) kernel<convert, D>::forward(ctx, to.data(), from.data(), n, false);
      else device_access<D>::zero(ctx, to.data(), n * sizeof(typename State::value_type));
      return to;
    }
  }
  // of_h = h w, plus the bias if there is one.
  template <class Products, class OfH, class H, class W, class... Rest>
  static constexpr void multiply(context<D>& ctx, OfH& of_h, const H& h, const W& w,
                                 const std::tuple<const Rest&...>& operands) {
    if constexpr (Cell::has_bias)
      kernel<linear, D>::forward(sums_of<Products>{}, ctx, of_h.view(), h.view(), w.view(),
                                 std::get<0>(operands).view());
    else kernel<matrix_product<false, false>, D>::forward(sums_of<Products>{}, ctx, of_h.view(), h.view(), w.view());
  }
  // The gradients of w and the bias, for all steps at once, by the kernels of linear.
  template <class Products, class OfH, class H, class W, class... Rest>
  static constexpr void weight_gradients(context<D>& ctx, const OfH& of_h, const H& h, const gradient_sink<W>& dw,
                                         const gradient_sink<Rest>&... drest) {
    constexpr sums_of<Products> in{};
    if (dw) {
      auto to = dw.open(ctx);
      kernel<linear, D>::backward(gradient_of<1>{}, in, ctx, to.view(), to.accumulate, of_h.view(), h.view());
    }
    if constexpr (Cell::has_bias)
      if (const auto& db = std::get<0>(std::tie(drest...))) {
        auto to = db.open(ctx);
        kernel<linear, D>::backward(gradient_of<2>{}, in, ctx, to.view(), to.accumulate, of_h.view());
      }
  }
};

}  // namespace gradus::op::inline GRADUS_BUILD
