#pragma once
// Runs the forward of one operation: checks its operands, makes it the context's activity and notifies the observer.

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

#include "../core/config.hpp"
#include "../memory/context.hpp"
#include "casting.hpp"
#include "failures.hpp"
#include "observe.hpp"
#include "op.hpp"
#include "traced.hpp"

namespace gradus::detail {

// Throws error if an operand was moved from.
constexpr void check_present(std::span<const operand_facts> operands) {
  for (const operand_facts& o : operands)
    if (!o.present) fail_empty_tensor();
}
// Throws error unless every traced operand of `call` belongs to `recorder` and its current recording, and every other
// one is a constant or a parameter.
GRADUS_NOINLINE constexpr void check_operands(const void* recorder, std::string_view call,
                                              std::span<const operand_facts> operands) {
  std::size_t number = 0;
  for (const operand_facts& o : operands) {
    ++number;
    if (o.recorder != nullptr) {
      if (*o.now != o.generation) fail_ended_recording();
      if (o.recorder != recorder) fail_two_tapes();
    } else {
      if (o.origin == origin::gradient) fail_second_order(call, number);
      if (o.tensor && o.origin == origin::parameter) fail_unrecorded_parameter(call, number);
    }
  }
}

// Marks the origin of an unrecorded result. If it shares its buffer (with a parameter, say), it gets a handle of its
// own first.
template <class Result>
constexpr void mark_origin(Result& result, origin from) {
  if constexpr (is_floating<typename Result::value_type>) {
    if (from == origin::any || from == result.storage().origin()) return;
    if (!result.storage().sole()) result = Result(result.storage().part(0, Result::bytes), result.extents());
    result.storage().mark(from);
  }
}

// True if x is one of these objects.
template <class X, class... Xs>
constexpr bool is_among(const X& x, const Xs&... xs) {
  return ((static_cast<const void*>(std::addressof(x)) == static_cast<const void*>(std::addressof(xs))) || ...);
}
// Moves an operand that is an rvalue, unless `all` contains the object twice (`x * std::move(x)`): C++ evaluates
// arguments in no particular order.
template <class X, class... Xs>
constexpr decltype(auto) taken_operand(X&& x, const Xs&... all) {
  if constexpr (std::is_lvalue_reference_v<X> || is_model_tensor<std::remove_cvref_t<X>>) {
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

// Runs forward in `ctx` on operands without recorders. With `Statistics`, the result has the statistics that backward
// needs.
template <bool Statistics, class Op, class D, class... Xs>
constexpr auto run(context<D>& ctx, phase when, const Op& op, Xs&&... xs) {
  const call_of<D, Statistics, Op, std::remove_cvref_t<Xs>...> how(ctx);
  using result_type = decltype(op.forward(how, taken(std::forward<Xs>(xs), xs...)...));
  const typename context<D>::running now(ctx, name_of(op), when, forward_cost<Op, result_type, tensor_of<Xs>...>);
  auto result = op.forward(how, taken(std::forward<Xs>(xs), xs...)...);
  if (ctx.observed_by() != nullptr) notify_computed(ctx, output_of(result), 0);
  return result;
}
// Runs forward in `ctx` on operands that no tape records. The result has the origin of its operands.
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

}  // namespace gradus::detail
