#pragma once
// One application of an operation, whoever records it: run it under its name, and collect what its gradient rule will
// need.

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "../core/config.hpp"
#include "../memory/context.hpp"
#include "call.hpp"
#include "failures.hpp"
#include "operand.hpp"
#include "saved.hpp"

namespace gradus::detail {

// The name of an operation: of this application of it where it has a name of its own, of its type otherwise.
template <class Op>
constexpr std::string_view name_of(const Op& op) {
  if constexpr (requires { op.label; }) return op.label;
  else return Op::name;
}
// What an operation on operands of these tensor types takes, where it says so.
template <class Op, class... Tensors>
constexpr cost forward_cost_of() {
  if constexpr (requires { Op::template forward_cost<Tensors...>(); }) return Op::template forward_cost<Tensors...>();
  else return {};
}
template <class Op, class... Tensors>
constexpr cost backward_cost_of() {
  if constexpr (requires { Op::template backward_cost<Tensors...>(); }) return Op::template backward_cost<Tensors...>();
  else return {};
}

template <class Op, class... Tensors>
inline constexpr cost forward_cost = forward_cost_of<Op, Tensors...>();
template <class Op, class... Tensors>
inline constexpr cost backward_cost = backward_cost_of<Op, Tensors...>();

// Operands hold elements.
constexpr void check_present(std::span<const operand_facts> operands) {
  for (const operand_facts& o : operands)
    if (!o.present) fail_empty_tensor();
}
// Operands of `recorder`'s operation `call` are its own, and of the recording under way.
GRADUS_NOINLINE constexpr void check_operands(const void* recorder, std::string_view call,
                                              std::span<const operand_facts> operands) {
  std::size_t number = 0;
  for (const operand_facts& o : operands) {
    ++number;
    if (o.recorder != nullptr) {
      if (*o.now != o.era) fail_ended_recording();
      if (o.recorder != recorder) fail_two_tapes();
    } else {
      if (o.origin == origin::gradient) fail_second_order(call, number);
      if (o.tensor && o.origin == origin::parameter) fail_unrecorded_parameter(call, number);
    }
  }
}

// Marks a result that nobody recorded. A buffer that it shares with others, such as a parameter, stays as it is.
template <class Result>
constexpr void mark_origin(Result& result, origin from) {
  if constexpr (is_floating<typename Result::value_type>) {
    if (from == origin::any || from == result.storage().origin()) return;
    if (!result.storage().sole()) result = Result(result.storage().part(0, Result::bytes));
    result.storage().mark(from);
  }
}

// True if one of these operands is the very object that `x` is.
template <class X, class... Xs>
constexpr bool is_among(const X& x, const Xs&... xs) {
  return ((static_cast<const void*>(std::addressof(x)) == static_cast<const void*>(std::addressof(xs))) || ...);
}
// An operand as it goes to an operation: an rvalue that stands in several places (`x * std::move(x)`, where `all` has
// it more than once) is not moved from, because operands are evaluated in no particular order.
template <class X, class... Xs>
constexpr decltype(auto) taken_operand(X&& x, const Xs&... all) {
  if constexpr (std::is_lvalue_reference_v<X> || is_param<std::remove_cvref_t<X>>) {
    return std::as_const(x);
  } else {
    const int times = (static_cast<int>(is_among(x, all)) + ...);
    if (times > 1) return X(std::as_const(x));
    return X(std::forward<X>(x));
  }
}
template <class X, class... Xs>
constexpr decltype(auto) taken(X&& x, const Xs&... all) {
  if constexpr (std::is_lvalue_reference_v<X>) return plain(x);
  else if constexpr (sizeof...(Xs) == 1) return tensor_of<X>(plain(std::forward<X>(x)));
  else return tensor_of<X>(plain(taken_operand(std::forward<X>(x), all...)));
}

// The element i of an array of T.
template <class T>
double read_element(const void* data, std::size_t i) {
  return static_cast<double>(static_cast<compute_type<T>>(static_cast<const T*>(data)[i]));
}
// Tells who observes the context of floating-point elements that the current operation computed.
GRADUS_NOINLINE inline void tell_elements(const context<cpu>& ctx, const buffer<cpu>& elements, std::size_t n,
                                          double (*read)(const void*, std::size_t), std::size_t operand) {
  if (elements) ctx.observed_by()->computed(ctx.current(), {elements.data(), n, read, operand});
}
template <class D, class X>
constexpr void tell_computed(const context<D>& ctx, const X& x, std::size_t operand) {
  if constexpr (std::is_same_v<D, cpu> && is_tensor<X>)
    if constexpr (is_floating<typename X::value_type>)
      tell_elements(ctx, x.storage(), X::size, &read_element<typename X::value_type>, operand);
}

template <class R>
constexpr auto& output_of(R& result) {
  if constexpr (is_tensor<R>) return result;
  else return result.output;
}
template <class R>
constexpr auto statistics_of(R& result) {
  if constexpr (is_tensor<R>) return not_saved{};
  else return std::move(result.statistics);
}

// Runs forward in `ctx`, on operands without their recorders. With `Keep`, the result holds the statistics that the
// gradient rule wants besides.
template <bool Keep, class Op, class D, class... Xs>
constexpr auto run(context<D>& ctx, phase when, const Op& op, Xs&&... xs) {
  const typename context<D>::running now(ctx, name_of(op), when, forward_cost<Op, tensor_of<Xs>...>);
  auto result =
      op.forward(call_of<D, Keep, Op, std::remove_cvref_t<Xs>...>(ctx), taken(std::forward<Xs>(xs), xs...)...);
  if (ctx.observed_by() != nullptr) tell_computed(ctx, output_of(result), 0);
  return result;
}
// The same where nobody records: the result remembers what it was computed from.
template <class Op, class D, class... Xs>
constexpr auto run_unrecorded(context<D>& ctx, phase when, const Op& op, Xs&&... xs) {
  const operand_facts facts[] = {facts_of(xs)...};
  check_present(facts);
  origin from = origin::any;
  for (const operand_facts& f : facts) from = std::max(from, f.origin);
  auto result = run<false>(ctx, when, op, std::forward<Xs>(xs)...);
  mark_origin(result, from);
  return result;
}

template <class Op, std::size_t I>
inline constexpr bool saves_input = I < 32 ? ((Op::saves.inputs >> (I % 32)) & 1u) != 0 : Op::saves.inputs == ~0u;

// True for an operation whose result has the elements of its operand.
template <class Op>
constexpr bool shares_elements() {
  if constexpr (requires { Op::shares_elements; }) return Op::shares_elements;
  else return false;
}

// Tells who observes the context that `by` keeps these values: tensors, or statistics with several `parts()`.
template <class D>
GRADUS_NOINLINE constexpr void note_buffer(const context<D>& ctx, std::string_view by, const buffer<D>& kept) {
  if (kept) ctx.observed_by()->saved(by, kept.request());
}
template <class D, class V>
constexpr void note_saved(const context<D>& ctx, std::string_view by, const V& v) {
  if constexpr (is_tensor<V>) note_buffer(ctx, by, v.storage());
  else if constexpr (requires { v.parts(); })
    std::apply([&](const auto&... part) { (note_saved(ctx, by, part), ...); }, v.parts());
}

}  // namespace gradus::detail
