#pragma once
// lstm and gru: their shape rules, without and with a state.

#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

#include "../../autodiff/apply.hpp"
#include "../../core/config.hpp"
#include "../../core/shape.hpp"
#include "../reshape/reshape.hpp"
#include "../slice/slice.hpp"
#include "operation.hpp"

namespace gradus {

namespace detail {

template <index_t ColumnsOfW, index_t GatesTimesRowsOfW>
inline constexpr bool columns_of_w_are_gates_times_rows = ColumnsOfW == GatesTimesRowsOfW;
template <index_t ColumnsOfGates, index_t ColumnsOfW>
inline constexpr bool columns_of_gates_equal_columns_of_w = ColumnsOfGates == ColumnsOfW;
template <class State, class BatchByRowsOfW>
inline constexpr bool state_is_batch_by_rows_of_w = std::is_same_v<State, BatchByRowsOfW>;

/// Checks shapes of gates, w and states; true if they fit.
template <class Cell, class X, class W, class... States>
constexpr bool check_recurrence() {
  GRADUS_REQUIRE("lstm(gates, w), gru(gates, w, b): gates must have three axes, [B, T, columns], and w two",
                 X::rank == 3 && W::rank == 2)
  GRADUS_REQUIRE("lstm(gates, w), gru(gates, w, b): w must be [H, 4*H] for lstm, and [H, 3*H] for gru",
                 columns_of_w_are_gates_times_rows<W::extent_in_type(1), Cell::gates * W::extent_in_type(0)>)
  GRADUS_REQUIRE("lstm(gates, w), gru(gates, w, b): columns of gates must equal columns of w",
                 columns_of_gates_equal_columns_of_w<X::extent_in_type(2), W::extent_in_type(1)>)
  GRADUS_REQUIRE("lstm(gates, w, h, c), gru(gates, w, b, h): states must be [B, H]",
                 (state_is_batch_by_rows_of_w<States, shape<X::extent_in_type(0), W::extent_in_type(0)>> && ...))
  { return true; }
  return false;
}
template <class Cell, class X, class W, class B, class... States>
constexpr bool check_recurrence_with_bias() {
  if constexpr (check_recurrence<Cell, X, W, States...>()) {
    GRADUS_REQUIRE("gru(gates, w, b): b must have one axis", B::rank == 1)
    GRADUS_REQUIRE("gru(gates, w, b): columns of w must equal the length of b",
                   columns_of_w_equal_length_of_b<W::extent_in_type(1), B::extent_in_type(0)>)
    return true;
  }
  return false;
}
/// Entry `time` of x [B, T, H], as [B, H].
template <class X>
GRADUS_OF_BUILD constexpr auto at_time(const X& x, index_t time) {
  using s = shape_of<X>;
  return reshape<s::extent_in_type(0), s::extent_in_type(2)>(slice<1, 1>(x, time));
}
/// The state after the last step.
template <class Y, class D>
GRADUS_OF_BUILD constexpr auto last_state(const Y& y, const recurrent_options<D>& options) {
  return at_time(y, options.reversed ? 0 : y.extent(1) - 1);
}
template <class Cell, bool ReturnsMemory, class D, class X, class... Rest>
GRADUS_OF_BUILD constexpr auto apply_recurrence(const recurrent_options<D>& options, X&& gates, Rest&&... rest) {
  check_lengths(Cell::name, options.lengths, plain(gates).extent(0), plain(gates).extent(1));
  return apply(op::recurrence<Cell, D, ReturnsMemory>{options}, std::forward<X>(gates), std::forward<Rest>(rest)...);
}

}  // namespace detail

/// A layer of long short-term memory (lstm_cell has the formulas) from a state of zeros: gates [B, T, 4*H] = x w_x + b
/// of all steps, by `linear`; w [H, 4*H] -> the hidden states y [B, T, H]. Columns are in PyTorch's order: input gate,
/// forget gate, cell, output gate.
template <operand X, operand W>
GRADUS_OF_BUILD constexpr auto lstm(X&& gates, W&& w,
                                    const recurrent_options<typename tensor_of<X>::device>& options = {}) {
  if constexpr (detail::check_recurrence<lstm_cell, shape_of<X>, shape_of<W>>())
    return detail::apply_recurrence<lstm_cell, false>(options, std::forward<X>(gates), std::forward<W>(w));
}

/// A layer of long short-term memory from the states h and c [B, H]: returns the tuple {y, h, c} of the hidden states
/// [B, T, H] and the states after the last step, from which another call continues. c is float for 16-bit gates. All
/// have gradients.
template <operand X, operand W, operand H, operand C>
GRADUS_OF_BUILD constexpr auto lstm(X&& gates, W&& w, H&& h, C&& c,
                                    const recurrent_options<typename tensor_of<X>::device>& options = {}) {
  using s = shape_of<X>;
  if constexpr (detail::check_recurrence<lstm_cell, s, shape_of<W>, shape_of<H>, shape_of<C>>()) {
    using op = op::recurrence<lstm_cell, typename tensor_of<X>::device, true>;
    using element = typename detail::call_rules<op, std::remove_cvref_t<X>, std::remove_cvref_t<W>,
                                                std::remove_cvref_t<H>, std::remove_cvref_t<C>>::cast;
    const index_t time = plain(gates).extent(1);
    const auto all = detail::apply_recurrence<lstm_cell, true>(options, std::forward<X>(gates), std::forward<W>(w),
                                                               std::forward<H>(h), std::forward<C>(c));
    auto y = cast<element>(slice<1, s::extent_in_type(1)>(all, 0, time));
    auto last_h = detail::last_state(y, options);
    return std::tuple(std::move(y), std::move(last_h), detail::at_time(all, time));
  }
}

/// A layer of gated recurrent units (gru_cell has the formulas) from a state of zeros: gates [B, T, 3*H] = x w_x + b_x
/// of all steps, by `linear`; w [H, 3*H] and b [3*H] -> the hidden states y [B, T, H]. Columns are in PyTorch's order:
/// reset gate, update gate, new state.
template <operand X, operand W, operand B>
GRADUS_OF_BUILD constexpr auto gru(X&& gates, W&& w, B&& b,
                                   const recurrent_options<typename tensor_of<X>::device>& options = {}) {
  if constexpr (detail::check_recurrence_with_bias<gru_cell, shape_of<X>, shape_of<W>, shape_of<B>>())
    return detail::apply_recurrence<gru_cell, false>(options, std::forward<X>(gates), std::forward<W>(w),
                                                     std::forward<B>(b));
}

/// A layer of gated recurrent units from the state h [B, H]: returns the tuple {y, h} of the hidden states [B, T, H]
/// and the state after the last step, from which another call continues.
template <operand X, operand W, operand B, operand H>
GRADUS_OF_BUILD constexpr auto gru(X&& gates, W&& w, B&& b, H&& h,
                                   const recurrent_options<typename tensor_of<X>::device>& options = {}) {
  if constexpr (detail::check_recurrence_with_bias<gru_cell, shape_of<X>, shape_of<W>, shape_of<B>, shape_of<H>>()) {
    auto y = detail::apply_recurrence<gru_cell, false>(options, std::forward<X>(gates), std::forward<W>(w),
                                                       std::forward<B>(b), std::forward<H>(h));
    auto last_h = detail::last_state(y, options);
    return std::tuple(std::move(y), std::move(last_h));
  }
}

}  // namespace gradus
