#pragma once
// What an operation keeps from forward for backward: a compile-time declaration, read by the tape, plans and tests
// alike.

#include <cstddef>
#include <type_traits>
#include <utility>

namespace gradus {

/// Which inputs (bit i = operand i) and whether the output are kept. Statistics that forward returns are kept besides.
struct save_rule {
  unsigned inputs = 0;
  bool output = false;
};
/// Keeps neither inputs nor output.
constexpr save_rule save_nothing() { return {}; }
/// Keeps the inputs of these numbers, counted from 0: `save_inputs(0, 2)`.
template <class... I>
constexpr save_rule save_inputs(I... operand) {
  return {((1u << operand) | ... | 0u), false};
}
/// Keeps the output.
constexpr save_rule save_output() { return {0, true}; }
/// Keeps what either keeps: `save_inputs(0) | save_output()`.
constexpr save_rule operator|(save_rule a, save_rule b) { return {a.inputs | b.inputs, a.output || b.output}; }

/// What forward returns when it has statistics to keep besides its output (a mean, a log-sum-exp).
template <class Output, class Statistics>
struct with_statistics {
  Output output;
  Statistics statistics;
};

/// Stands where nothing is kept.
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

// Stands in for what does not compile, so that nothing else is wrong with the expression.
struct anything_saved {
  template <class T>
  operator T() const;
};
inline constexpr anything_saved stand_in{};

// A list of values of types that are known, by number: a tuple that compiles quickly. Written `items<A, B>{{a}, {b}}`.
template <std::size_t I, class T>
struct item {
  [[no_unique_address]] T value;
};
template <class Numbers, class... Ts>
struct item_list;
template <std::size_t... I, class... Ts>
struct item_list<std::index_sequence<I...>, Ts...> : item<I, Ts>... {};
template <class... Ts>
using items = item_list<std::index_sequence_for<Ts...>, Ts...>;
template <std::size_t I, class T>
constexpr const T& get(const item<I, T>& of) {
  return of.value;
}

template <bool Keep, class T>
constexpr auto keep_if(const T& value) {
  if constexpr (Keep) return value;
  else return not_saved{};
}

}  // namespace detail

/// What one application of an operation kept. Read it with input<i>(s), output(s), statistics(s).
/// @tparam Products what its products were computed in, and are in backward; see call
template <class Products, class Inputs, class Output, class Statistics>
struct saved_values {
  using products = Products;
  Inputs inputs;
  [[no_unique_address]] Output output;
  [[no_unique_address]] Statistics statistics;
};

/// Operand number I, counted from 0. Does not compile where the operation's `saves` does not list it.
template <std::size_t I, class P, class Inputs, class O, class S>
constexpr decltype(auto) input(const saved_values<P, Inputs, O, S>& s) {
  using kept = std::remove_cvref_t<decltype(detail::get<I>(s.inputs))>;
  static_assert(!std::is_same_v<kept, not_saved>, "input<I>(saved): the operation's `saves` does not list this input");
  if constexpr (!std::is_same_v<kept, not_saved>) return (detail::get<I>(s.inputs));
  else return detail::stand_in;
}
/// What forward returned. Does not compile where the operation's `saves` does not list the output.
template <class P, class Inputs, class O, class S>
constexpr decltype(auto) output(const saved_values<P, Inputs, O, S>& s) {
  static_assert(!std::is_same_v<O, not_saved>, "output(saved): the operation's `saves` does not list its output");
  if constexpr (!std::is_same_v<O, not_saved>) return (s.output);
  else return detail::stand_in;
}
/// The statistics that forward returned beside its output; `not_saved` where it has none.
template <class P, class Inputs, class O, class S>
constexpr const S& statistics(const saved_values<P, Inputs, O, S>& s) {
  return s.statistics;
}

}  // namespace gradus
