#pragma once
// What an operation accepts: tensors (constants), traced values (recorded) and parameters (leaves), freely mixed.

#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "../core/error.hpp"
#include "../tensor/gradient_slot.hpp"
#include "../tensor/param.hpp"
#include "../tensor/tensor.hpp"
#include "failures.hpp"

namespace gradus {

namespace detail {
template <class X>
inline constexpr bool is_tuple_like = false;
template <class... Ts>
inline constexpr bool is_tuple_like<std::tuple<Ts...>> = true;
template <class A, class B>
inline constexpr bool is_tuple_like<std::pair<A, B>> = true;
// What recorders look at of an operand, whatever its type.
struct operand_facts {
  const void* recorder = nullptr;          // of a traced value
  const unsigned* now = nullptr;           // where its recordings are counted
  unsigned era = 0;                        // its own
  bool present = true;                     // false for one that holds no elements
  bool tensor = false;                     // a constant
  gradus::origin origin{};                 // of anything that is not traced
  any_slot* slot = nullptr;                // where its gradient goes; null for constants
  const std::uint64_t* version = nullptr;  // of a parameter: how often it was changed
  unsigned maker = 0;                      // of a traced value: see there
};

}  // namespace detail

/// A value that travels with the recorder of the computation it takes part in. `Recorder` decides what an applied
/// operation does besides computing: a tape records it for backward.
template <class Value, class Recorder>
class traced {
 public:
  using tensor_type = Value;
  using recorder_type = Recorder;
  using value_type = typename Value::value_type;
  using shape = typename Value::shape;
  using device = typename Value::device;

  /// `era` is where the tape counts its recordings.
  constexpr traced(Value value, Recorder* recorder, gradient_slot<Value>* slot, const unsigned& era, unsigned maker = 0)
      : value_(std::move(value)), recorder_(recorder), slot_(slot), now_(&era), era_(era), maker_(maker) {}
  traced(Value, Recorder*, gradient_slot<Value>*, unsigned&&, unsigned = 0) = delete;  // a number of nobody's

  /// The plain value, cut off from the recording (a constant from here on).
  constexpr const Value& value() const& {
    note_read();
    return value_;
  }
  constexpr Value value() && {
    note_read();
    return std::move(value_);
  }
  /// The plain value for an operation that takes part in the recording.
  constexpr const Value& carried() const& { return value_; }
  constexpr Value carried() && { return std::move(value_); }
  constexpr Value&& moved() { return std::move(value_); }
  /// Throws error when the recording is over, which may have ended with its tape.
  constexpr Recorder& recorder() const {
    if (!is_current()) detail::fail_ended_recording();
    return *recorder_;
  }
  /// True until the recording that this belongs to is over: the tape was cleared, is gone, or has begun another one.
  constexpr bool is_current() const { return *now_ == era_; }
  constexpr gradient_slot<Value>* slot() const { return slot_; }
  /// Which recording of the tape this belongs to; used to refuse values that outlived their recording.
  constexpr unsigned era() const { return era_; }
  constexpr detail::operand_facts facts() const {
    return {.recorder = recorder_,
            .now = now_,
            .era = era_,
            .present = static_cast<bool>(value_),
            .slot = slot_,
            .maker = maker_};
  }
  /// Within a checkpoint region: the number, from 1, of the operation that made this value; 0 for its arguments.
  constexpr unsigned maker() const { return maker_; }
  /// Gradient with respect to this value, which tape.variable() must have made; empty before backward() and where no
  /// loss depends on it. Throws error for any other value, and once the tape is used again.
  constexpr const Value& gradient() const {
    if (!is_current() || !recorder_->holds_variable(slot_, era_)) detail::fail_no_variable();
    return slot_->marked();
  }

 private:
  // A recorder that may leave out what nobody needs wants to know who looks.
  constexpr void note_read() const {
    if constexpr (requires { recorder_->note_read(maker_, true); })
      recorder_->note_read(maker_, static_cast<bool>(value_));
  }

  Value value_;
  Recorder* recorder_;
  gradient_slot<Value>* slot_;
  const unsigned* now_;
  unsigned era_;
  unsigned maker_;
};

/// True for traced<Value, Recorder>, without const and without a reference.
template <class X>
inline constexpr bool is_traced = false;
template <class V, class R>
inline constexpr bool is_traced<traced<V, R>> = true;

/// Anything an operation takes as a tensor argument.
template <class X>
concept operand =
    is_tensor<std::remove_cvref_t<X>> || is_traced<std::remove_cvref_t<X>> || is_param<std::remove_cvref_t<X>>;

namespace detail {

template <class X>
struct operand_tensor {
  using type = X;
};
template <class V, class R>
struct operand_tensor<traced<V, R>> {
  using type = V;
};
template <class X, index_t... E>
struct operand_tensor<param<X, E...>> {
  using type = typename param<X, E...>::tensor_type;
};

// A parameter in the type that its policy computes in: an operand of a product.
template <class P>
struct computed_param {
  using policy = typename P::policy;
  const P* of;
  typename P::compute_tensor value;
};
template <class X>
inline constexpr bool is_computed_param = false;
template <class P>
inline constexpr bool is_computed_param<computed_param<P>> = true;
template <class P>
struct operand_tensor<computed_param<P>> {
  using type = typename P::compute_tensor;
};

// The tensor in which an operand's gradient accumulates.
template <class X>
struct operand_gradient : operand_tensor<X> {};
template <class X, index_t... E>
struct operand_gradient<param<X, E...>> {
  using type = typename param<X, E...>::gradient_type;
};
template <class P>
struct operand_gradient<computed_param<P>> {
  using type = typename P::gradient_type;
};
template <class X>
using gradient_tensor_of = typename operand_gradient<X>::type;

template <class... Xs>
struct recorder_of {
  using type = void;
};
template <class V, class R, class... Rest>
struct recorder_of<traced<V, R>, Rest...> {
  using type = R;
};
template <class X, class... Rest>
struct recorder_of<X, Rest...> : recorder_of<Rest...> {};

template <class R, class X>
inline constexpr bool recorded_by = true;
template <class R, class V, class Other>
inline constexpr bool recorded_by<R, traced<V, Other>> = std::is_same_v<R, Other>;

template <class R, class X, class... Rest>
constexpr R& find_recorder(const X& x, const Rest&... rest) {
  if constexpr (is_traced<X>) return x.recorder();
  else return find_recorder<R>(rest...);
}

}  // namespace detail

/// The tensor type behind an operand, and its shape and element type.
template <class X>
using tensor_of = typename detail::operand_tensor<std::remove_cvref_t<X>>::type;
template <class X>
using shape_of = typename tensor_of<X>::shape;
template <class X>
using value_of_t = typename tensor_of<X>::value_type;

/// The plain tensor behind an operand. An rvalue is moved from, so that an operation may reuse the memory.
template <class X>
constexpr decltype(auto) plain(X&& x) {
  using raw = std::remove_cvref_t<X>;
  if constexpr (is_tensor<raw>) return std::forward<X>(x);
  else if constexpr (is_param<raw>) {
    if (!x.value()) detail::fail_no_parameter_value();
    return x.value();
  } else if constexpr (detail::is_computed_param<raw>) return (std::forward<X>(x).value);
  else return std::forward<X>(x).carried();
}

namespace detail {

// What a result that nobody records is computed from, as far as this operand goes.
template <class X>
constexpr origin origin_of(const X& x) {
  if constexpr (is_tensor<X>) return x.storage().origin();
  else if constexpr (is_param<X> || is_computed_param<X>) return origin::parameter;
  else return origin::any;
}
template <class X>
constexpr operand_facts facts_of(const X& x) {
  if constexpr (is_traced<X>) return x.facts();
  else if constexpr (is_param<X>) return {.origin = origin::parameter, .slot = &x.slot(), .version = &x.version()};
  else if constexpr (is_computed_param<X>) return facts_of(*x.of);
  else return {.present = static_cast<bool>(x), .tensor = true, .origin = x.storage().origin()};
}

// An operand without its recorder. Operations are compiled for these, so that all recorders share them.
template <class X>
constexpr decltype(auto) stripped(X&& x) {
  if constexpr (!is_traced<std::remove_cvref_t<X>>) return std::forward<X>(x);
  else if constexpr (std::is_lvalue_reference_v<X>) return x.carried();
  else return x.moved();
}

// A parameter's version when an operation kept it, to tell whether it was changed since; of anything else, nothing.
struct kept_version {
  const std::uint64_t* now = nullptr;
  std::uint64_t before = 0;

  constexpr kept_version() = default;
  constexpr kept_version(const operand_facts& of, bool kept)
      : now(kept ? of.version : nullptr), before(now == nullptr ? 0 : *now) {}
  constexpr bool was_changed() const { return now != nullptr && *now != before; }
};

}  // namespace detail

}  // namespace gradus
