#pragma once
// One application of an operation, whoever records it: run it under its name, and collect what its gradient rule will
// need.

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "../memory/context.hpp"
#include "call.hpp"
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

template <class X>
constexpr void check_present(const X& x) {
  if constexpr (is_traced<X>) x.carried().check_present();
  else if constexpr (is_tensor<X>) x.check_present();
}

// "add: operand 2"
inline std::string operand_text(std::string_view call, std::size_t operand) {
  return std::string(call) + ": operand " + std::to_string(operand);
}
[[noreturn]] inline void fail_second_order(std::string_view call, std::size_t operand) {
  throw error(operand_text(call, operand) +
              " is a gradient, or was computed from one, and there are no second derivatives; if it is meant as a "
              "constant, pass gradus::detach(x)");
}
[[noreturn]] inline void fail_unrecorded_parameter(std::string_view call, std::size_t operand) {
  throw error(
      operand_text(call, operand) +
      " was computed from parameters outside the recording, so they would get no gradient through it; record the "
      "input that it was computed from, tape.watch(input), or, if parameters are all that it was computed from, "
      "begin with gradus::watch(parameter, x), x being recorded; if it is meant as a constant, pass "
      "gradus::detach(it)");
}
// What a result that nobody records is computed from, as far as this operand goes.
template <class X>
constexpr origin origin_of(const X& x) {
  if constexpr (is_tensor<X>) return x.storage().origin();
  else if constexpr (is_param<X> || is_computed_param<X>) return origin::parameter;
  else return origin::any;
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
  if constexpr (std::is_lvalue_reference_v<X> || sizeof...(Xs) == 1) return plain(std::forward<X>(x));
  else return tensor_of<X>(plain(taken_operand(std::forward<X>(x), all...)));
}

// Tells who observes the context of floating-point elements that the current operation computed.
template <class D, class X>
constexpr void tell_computed(context<D>& ctx, const X& x, std::size_t operand) {
  if constexpr (std::is_same_v<D, cpu> && is_tensor<X>)
    if constexpr (is_floating<typename X::value_type>) {
      using T = typename X::value_type;
      if (!x) return;
      const auto read = [](const void* data, std::size_t i) {
        return static_cast<double>(static_cast<compute_type<T>>(static_cast<const T*>(data)[i]));
      };
      ctx.observed_by()->computed(ctx.current(), {x.data(), X::shape::size, read, operand});
    }
}

// Runs forward in `ctx`. With `Keep`, the result holds the statistics that the gradient rule wants besides. If it is
// `Recorded`, gradients find their way through it, whatever it was computed from.
template <bool Keep, class Op, bool Recorded = Keep, class D, class... Xs>
constexpr auto run(context<D>& ctx, phase when, const Op& op, Xs&&... xs) {
  (check_present(xs), ...);
  constexpr cost work = forward_cost_of<Op, tensor_of<Xs>...>();
  const typename context<D>::running now(ctx, activity{name_of(op), when, work});
  const origin from = Recorded ? origin::any : std::max({origin_of(xs)...});
  auto result =
      op.forward(call_of<D, Keep, Op, std::remove_cvref_t<Xs>...>(ctx), taken(std::forward<Xs>(xs), xs...)...);
  if constexpr (is_tensor<decltype(result)>) mark_origin(result, from);
  if (ctx.observed_by() != nullptr) {
    if constexpr (requires { result.output; }) tell_computed(ctx, result.output, 0);
    else tell_computed(ctx, result, 0);
  }
  return result;
}

// Where the inputs' gradients go, the inputs that the operation saves, and the versions of the parameters whose
// elements somebody keeps.
template <class Sinks, class Inputs, class Versions>
struct kept_values {
  Sinks sinks;
  Inputs inputs;
  [[no_unique_address]] Versions versions;
  constexpr kept_values(Sinks s, Inputs i, Versions v)
      : sinks(std::move(s)), inputs(std::move(i)), versions(std::move(v)) {}
  constexpr bool wanted() const {
    return [this]<std::size_t... I>(std::index_sequence<I...>) {
      return (static_cast<bool>(std::get<I>(sinks)) || ...);
    }(std::make_index_sequence<std::tuple_size_v<Sinks>>{});
  }
};

template <class Op, std::size_t I>
inline constexpr bool saves_input = I < 32 ? ((Op::saves.inputs >> (I % 32)) & 1u) != 0 : Op::saves.inputs == ~0u;

// True for an operation whose result has the elements of its operand.
template <class Op>
constexpr bool shares_elements() {
  if constexpr (requires { Op::shares_elements; }) return Op::shares_elements;
  else return false;
}

template <bool Keep, class X>
constexpr auto version_if(const X& x) {
  if constexpr (Keep) return version_of(x);
  else return no_version{};
}
template <class Op, class... Xs>
constexpr auto kept_inputs(const std::remove_reference_t<Xs>&... xs) {
  return [&]<std::size_t... I>(std::index_sequence<I...>) {
    return kept_values{std::make_tuple(sink_of(xs)...), std::make_tuple(keep_if<saves_input<Op, I>>(plain(xs))...),
                       std::make_tuple(version_if < saves_input<Op, I> || shares_elements<Op>() > (xs)...)};
  }(std::index_sequence_for<Xs...>{});
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
// Tells who watches the context that `by` keeps these values: tensors, or statistics with several `parts()`.
template <class Context, class... Values>
constexpr void note_saved(const Context& ctx, std::string_view by, const Values&... values) {
  observer* watching = ctx.observed_by();
  if (watching == nullptr) return;
  const auto note = [&](const auto& v) {
    if constexpr (is_tensor<std::remove_cvref_t<decltype(v)>>) {
      if (v) watching->saved(by, v.storage().request());
    } else if constexpr (requires { v.parts(); }) {
      std::apply([&](const auto&... part) { note_saved(ctx, by, part...); }, v.parts());
    }
  };
  (note(values), ...);
}
template <class Context, class... Values>
constexpr void note_all_saved(const Context& ctx, std::string_view by, const std::tuple<Values...>& values) {
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    note_saved(ctx, by, std::get<I>(values)...);
  }(std::index_sequence_for<Values...>{});
}
template <class Context, class R>
constexpr void note_result(const Context& ctx, std::string_view by, const R& result) {
  if constexpr (is_tensor<R>) note_saved(ctx, by, result);
  else note_saved(ctx, by, result.output, result.statistics);
}
template <class Op, class Products, class Inputs, class R>
constexpr auto saved_of(Inputs inputs, R& result) {
  using parts = forward_result<R>;
  using output = std::conditional_t<Op::saves.output, typename parts::output, not_saved>;
  return saved_values<Products, Inputs, output, typename parts::statistics>{
      std::move(inputs), keep_if<Op::saves.output>(output_of(result)), statistics_of(result)};
}

}  // namespace gradus::detail
