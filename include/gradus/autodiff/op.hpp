#pragma once
// What an operation declares: its name, its cost, and what it saves for backward.

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <type_traits>
#include <utility>

#include "../core/cost.hpp"
#include "../core/dtype.hpp"

namespace gradus {

/// What backward needs: inputs (bit i: operand i) and the output. Statistics that forward returns are always saved.
struct save_rule {
  unsigned inputs = 0;
  bool output = false;
  unsigned for_gradient_of[3] = {~0u, ~0u, ~0u};  ///< of the first operands: the inputs that each one's gradient needs
};
/// Saves neither inputs nor output.
constexpr save_rule save_nothing() { return {}; }
/// Saves the inputs of these numbers, counted from 0: `save_inputs(0, 2)`.
template <class... Numbers>
constexpr save_rule save_inputs(Numbers... operand) {
  return {((1u << operand) | ... | 0u), false};
}
/// Saves the output.
constexpr save_rule save_output() { return {0, true}; }
/// Saves the two factors of a product, each for the gradient of the other one: a factor is not saved if the other one
/// is a constant. `also`: inputs that both gradients need.
constexpr save_rule save_factors(unsigned also = 0) { return {0b11 | also, false, {0b10 | also, 0b01 | also, also}}; }
/// Saves what either rule saves: `save_inputs(0) | save_output()`.
constexpr save_rule operator|(save_rule a, save_rule b) {
  save_rule both{a.inputs | b.inputs, a.output || b.output};
  for (int i = 0; i < 3; ++i)
    both.for_gradient_of[i] = (a.inputs & a.for_gradient_of[i]) | (b.inputs & b.for_gradient_of[i]);
  return both;
}

/// The result of a forward that has statistics to save besides its output (a mean, a log-sum-exp).
template <class Output, class Statistics>
struct with_statistics {
  Output output;
  Statistics statistics;
};

/// The result of a forward with output y whose kernel also writes statistics S, a tensor of `extents` if it is bounded:
/// `run` gets their address. Without a tape they are not saved, nor allocated, and `run` gets a null pointer.
template <class S, class Call, class Y, class Run, class... Extents>
constexpr auto with_optional_statistics(Call how, Y& y, const Run& run, const Extents&... extents) {
  if constexpr (Call::saves_statistics) {
    S statistics(how.owner(), extents...);
    run(statistics.data());
    return with_statistics<Y, S>{std::move(y), std::move(statistics)};
  } else {
    run(static_cast<typename S::value_type*>(nullptr));
    return std::move(y);
  }
}

/// Takes the place of an input, output or statistics that the operation does not save.
struct not_saved {};

namespace detail {

template <class R>
struct forward_result {
  using output = R;
  using statistics = not_saved;
};
template <class O, class S>
struct forward_result<with_statistics<O, S>> {
  using output = O;
  using statistics = S;
};

// Converts to every type: the value of an expression that a static_assert rejects, so that it is the only error.
struct anything_saved {
  template <class T>
  operator T() const;
};
inline constexpr anything_saved stand_in{};

// A tuple that compiles quickly; written `items<A, B>{{a}, {b}}`.
template <std::size_t At, class T>
struct item {
  [[no_unique_address]] T value;
};
template <class Numbers, class... Ts>
struct item_list;
template <std::size_t... Is, class... Ts>
struct item_list<std::index_sequence<Is...>, Ts...> : item<Is, Ts>... {};
template <class... Ts>
using items = item_list<std::index_sequence_for<Ts...>, Ts...>;
template <std::size_t At, class T>
constexpr const T& get(const item<At, T>& of) {
  return of.value;
}

// A value that an operation saves, if it is `needed`.
template <bool Saves, class T>
constexpr auto saved_or_not(const T& value, bool needed = true) {
  if constexpr (Saves) {
    T kept;  // g++ 12 copies bits where a constant expression chooses by ?:
    if (needed) kept = value;
    return kept;
  } else {
    return not_saved{};
  }
}

template <class R>
constexpr R& output_of(R& result) {
  return result;
}
template <class O, class S>
constexpr O& output_of(with_statistics<O, S>& result) {
  return result.output;
}
template <class R>
constexpr not_saved statistics_of(R&) {
  return {};
}
template <class O, class S>
constexpr S statistics_of(with_statistics<O, S>& result) {
  return std::move(result.statistics);
}

// The name of an operation: its label if it has one, otherwise its type's.
template <class Op>
constexpr std::string_view name_of(const Op& op) {
  if constexpr (requires { op.label; }) return op.label;
  else return Op::name;
}

// Whether a set of inputs, a bit for each of 32, has input i; if all bits are set, it has any.
constexpr bool has_input(unsigned inputs, std::size_t i) {
  return i < 32 ? ((inputs >> (i % 32)) & 1u) != 0 : inputs == ~0u;
}
template <class Op, std::size_t At>
inline constexpr bool saves_input = has_input(Op::saves.inputs, At);
// The inputs that a call of the operation saves: those that a gradient needs, where has_gradient(i) says whether
// operand number i may have one.
template <class Op, class F>
constexpr unsigned inputs_to_save(std::size_t operands, const F& has_gradient) {
  unsigned needed = 0;
  if constexpr (Op::saves.inputs != 0)
    for (std::size_t i = 0; i < operands; ++i)
      if (has_gradient(i)) needed |= i < 3 ? Op::saves.for_gradient_of[i] : ~0u;
  return Op::saves.inputs & needed;
}
// True for a product whose two factors have a gradient each, of half of backward's FLOPs.
template <class Op>
inline constexpr bool has_two_factors =
    (Op::saves.inputs & 0b11u) == 0b11u && (Op::saves.for_gradient_of[0] & 1u) == 0 &&
    (Op::saves.for_gradient_of[1] & 2u) == 0;

// True if the output shares the elements of the operand.
template <class Op>
constexpr bool shares_elements() {
  if constexpr (requires { Op::shares_elements; }) return Op::shares_elements;
  else return false;
}
// True if forward reads a part of operand At, of as many bytes as the result (`static constexpr unsigned
// selected_operands`).
template <class Op, std::size_t At>
constexpr bool selects_from() {
  if constexpr (requires { Op::selected_operands; }) return (Op::selected_operands >> At & 1u) != 0;
  else return false;
}
// True if forward computes the gradients (`static constexpr bool gradients_in_forward`).
template <class Op>
constexpr bool computes_gradients_in_forward() {
  if constexpr (requires { Op::gradients_in_forward; }) return Op::gradients_in_forward;
  else return false;
}
template <class T>
constexpr std::size_t bytes_of() {
  if constexpr (std::is_same_v<T, not_saved>) return 0;
  else return T::bytes;
}
template <class Items>
inline constexpr std::size_t bytes_of_items = 0;
template <class Numbers, class... Ts>
inline constexpr std::size_t bytes_of_items<item_list<Numbers, Ts...>> = (bytes_of<Ts>() + ... + 0);
template <class X>
constexpr std::size_t gradient_bytes_of() {
  return is_floating<typename X::value_type> ? X::bytes : 0;
}

// FLOPs of an operation with the result Y of operands Xs: what its `flops<Xs...>()` says, or `flops_per_element` for
// each element of the largest of them.
template <class Op, class Y, class... Xs>
constexpr flop_counts flops_of() {
  if constexpr (requires { Op::template flops<Xs...>(); }) return Op::template flops<Xs...>();
  else if constexpr (requires { Op::flops_per_element; }) {
    constexpr std::size_t elements = std::max({std::size_t{Y::size}, std::size_t{Xs::size}...});
    return {elements * Op::flops_per_element.forward, elements * Op::flops_per_element.backward};
  } else return {};
}
// The cost of forward: reads the operands, writes the result. Statistics do not count, so that an operation costs the
// same with and without a tape.
template <class Op, class Result, class... Xs, std::size_t... Is>
constexpr cost forward_cost_of(std::index_sequence<Is...>) {
  using Y = typename forward_result<Result>::output;
  constexpr std::size_t flops = flops_of<Op, Y, Xs...>().forward;
  if constexpr (shares_elements<Op>()) return {flops, 0, 0};
  else
    return {flops, ((selects_from<Op, Is>() ? std::min(Xs::bytes, Y::bytes) : Xs::bytes) + ... + 0),
            (computes_gradients_in_forward<Op>() ? (gradient_bytes_of<Xs>() + ... + 0) : 0) + Y::bytes};
}
// The cost of backward: reads the gradient of the result and what was saved, writes the gradients of the operands Xs.
template <class Op, class Y, class Saved, class... Xs>
constexpr cost backward_cost_of() {
  constexpr bool no_gradient =
      !is_floating<typename Y::value_type> || requires(const Op& op) { op.backward(); };  // ignores whatever comes
  if constexpr (no_gradient || computes_gradients_in_forward<Op>() || shares_elements<Op>()) return {};
  else
    return {flops_of<Op, Y, Xs...>().backward,
            Y::bytes + bytes_of_items<decltype(Saved::inputs)> + bytes_of<decltype(Saved::output)>() +
                bytes_of<decltype(Saved::statistics)>(),
            (gradient_bytes_of<Xs>() + ... + 0)};
}
template <class Op, class Result, class... Xs>
inline constexpr cost forward_cost = forward_cost_of<Op, Result, Xs...>(std::index_sequence_for<Xs...>{});
template <class Op, class Y, class Saved, class... Xs>
inline constexpr cost backward_cost = backward_cost_of<Op, Y, Saved, Xs...>();

}  // namespace detail

/// The values that one call of an operation saved. Read them with input<i>(s), output(s), statistics(s).
/// @tparam Products type of the operation's products, in forward and backward; see call
template <class Products, class Inputs, class Output, class Statistics>
struct saved_values {
  using products = Products;
  Inputs inputs;
  [[no_unique_address]] Output output;
  [[no_unique_address]] Statistics statistics;
};

/// Operand number At, counted from 0. Does not compile if the operation's `saves` does not list it.
template <std::size_t At, class P, class Inputs, class O, class S>
constexpr decltype(auto) input(const saved_values<P, Inputs, O, S>& s) {
  using saved = std::remove_cvref_t<decltype(detail::get<At>(s.inputs))>;
  static_assert(!std::is_same_v<saved, not_saved>, "input<I>(saved): the operation's `saves` does not list this input");
  if constexpr (!std::is_same_v<saved, not_saved>) return (detail::get<At>(s.inputs));
  else return detail::stand_in;
}
/// The output of forward. Does not compile if the operation's `saves` does not list it.
template <class P, class Inputs, class O, class S>
constexpr decltype(auto) output(const saved_values<P, Inputs, O, S>& s) {
  static_assert(!std::is_same_v<O, not_saved>, "output(saved): the operation's `saves` does not list its output");
  if constexpr (!std::is_same_v<O, not_saved>) return (s.output);
  else return detail::stand_in;
}
/// The statistics that forward returned besides its output; `not_saved` if it has none.
template <class P, class Inputs, class O, class S>
constexpr const S& statistics(const saved_values<P, Inputs, O, S>& s) {
  return s.statistics;
}

}  // namespace gradus
