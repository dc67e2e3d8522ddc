#pragma once
// The operands of an operation: tensors and states (constants), traced values (recorded) and parameters (in no tape).

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>

#include "../tensor/creation.hpp"
#include "../tensor/gradient_slot.hpp"
#include "../tensor/param.hpp"
#include "../tensor/state.hpp"
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

// What a recorder reads of an operand of any type.
struct operand_facts {
  const void* recorder = nullptr;          // of a traced value
  const unsigned* now = nullptr;           // generation of its tape
  unsigned generation = 0;                 // of the recording that it belongs to
  bool present = true;                     // false for a tensor that was moved from
  bool tensor = false;                     // a constant
  gradus::origin origin{};                 // of a constant or parameter
  any_slot* slot = nullptr;                // where its gradient accumulates; null for a constant or frozen
  const std::uint64_t* version = nullptr;  // of a parameter or state: how often it was changed
  bool state = false;                      // of a model
  unsigned producer = 0;                   // of a traced value: traced::producer()
};

}  // namespace detail

/// A value with the recorder of its computation. apply() hands an operation on it to that recorder: a tape records the
/// operation for backward.
template <class Value, class Recorder>
class traced {
 public:
  using tensor_type = Value;
  using recorder_type = Recorder;
  using value_type = typename Value::value_type;
  using shape = typename Value::shape;
  using device = typename Value::device;

  /// `generation` is the counter of the tape's recordings.
  constexpr traced(Value value, Recorder* recorder, gradient_slot<Value>* slot, const unsigned& generation,
                   unsigned producer = 0)
      : value_(std::move(value)),
        recorder_(recorder),
        slot_(slot),
        now_(&generation),
        generation_(generation),
        producer_(producer) {}
  traced(Value, Recorder*, gradient_slot<Value>*, unsigned&&, unsigned = 0) = delete;

  /// The value as a constant: no gradient flows through it.
  constexpr const Value& value() const& {
    notify_read();
    return value_;
  }
  constexpr Value value() && {
    notify_read();
    return std::move(value_);
  }
  /// The value for an operation that is part of the recording.
  constexpr const Value& carried() const& { return value_; }
  constexpr Value carried() && { return std::move(value_); }
  constexpr Value&& moved() { return std::move(value_); }
  /// Throws error if the recording has ended.
  constexpr Recorder& recorder() const {
    if (!is_current()) detail::fail_ended_recording();
    return *recorder_;
  }
  /// False once the recording has ended: the tape was cleared, destroyed, or has started another recording.
  constexpr bool is_current() const { return *now_ == generation_; }
  constexpr gradient_slot<Value>* slot() const { return slot_; }
  /// The value's extent along `axis`; see tensor::extent.
  constexpr index_t extent(std::ptrdiff_t axis) const { return value_.extent(axis); }
  /// Number of the recording that this value belongs to.
  constexpr unsigned generation() const { return generation_; }
  constexpr detail::operand_facts facts() const {
    return {.recorder = recorder_,
            .now = now_,
            .generation = generation_,
            .present = static_cast<bool>(value_.storage()),
            .slot = slot_,
            .producer = producer_};
  }
  /// In a checkpoint region: the number, from 1, of the operation that computed this value; 0 for its arguments.
  constexpr unsigned producer() const { return producer_; }
  /// Gradient with respect to this value, which must come from tape.variable(); empty before backward() and if no loss
  /// depends on it. Throws error for other values, and once the tape is used again.
  constexpr const Value& gradient() const {
    if (!is_current() || !recorder_->holds_variable(slot_, generation_)) detail::fail_no_variable();
    return slot_->marked();
  }

 private:
  // A region skips operations whose results are never read, so it must see reads.
  constexpr void notify_read() const {
    if constexpr (requires { recorder_->notify_read(producer_, true); })
      recorder_->notify_read(producer_, static_cast<bool>(value_.storage()));
  }

  Value value_;
  Recorder* recorder_;
  gradient_slot<Value>* slot_;
  const unsigned* now_;
  unsigned generation_;
  unsigned producer_;
};

/// True for traced<Value, Recorder>, without const and without a reference.
template <class X>
inline constexpr bool is_traced = false;
template <class V, class R>
inline constexpr bool is_traced<traced<V, R>> = true;

/// True if values of type X (also a reference, or const) are recorded for backward, false if they are plain: how code
/// of a model tells training from inference: `if constexpr (gr::is_recorded<decltype(x)>)`.
template <class X>
inline constexpr bool is_recorded = is_traced<std::remove_cvref_t<X>>;

/// The operand types of operations.
template <class X>
concept operand =
    is_tensor<std::remove_cvref_t<X>> || is_traced<std::remove_cvref_t<X>> || is_model_tensor<std::remove_cvref_t<X>>;

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
template <class X, index_t... E>
struct operand_tensor<state<X, E...>> {
  using type = typename state<X, E...>::tensor_type;
};

// A parameter with its copy in the policy's compute type: an operand of a product.
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

// True for a parameter that no recording has a gradient for.
template <class X>
inline constexpr bool is_constant_param = false;
template <class X, index_t... E>
inline constexpr bool is_constant_param<param<X, E...>> = !param<X, E...>::trains;
template <class P>
inline constexpr bool is_constant_param<computed_param<P>> = !P::trains;

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

/// The tensor type of an operand, its shape and its element type.
template <class X>
using tensor_of = typename detail::operand_tensor<std::remove_cvref_t<X>>::type;
template <class X>
using shape_of = typename tensor_of<X>::shape;
template <class X>
using value_of_t = typename tensor_of<X>::value_type;

/// The tensor of an operand. An rvalue's tensor is moved, so that an operation can reuse its memory.
template <class X>
constexpr decltype(auto) plain(X&& x) {
  using raw = std::remove_cvref_t<X>;
  if constexpr (is_tensor<raw>) return std::forward<X>(x);
  else if constexpr (is_model_tensor<raw>) {
    if (!x.value()) detail::fail_no_parameter_value();
    return x.value();
  } else if constexpr (detail::is_computed_param<raw>) return (std::forward<X>(x).value);
  else return std::forward<X>(x).carried();
}

namespace detail {

template <class X>
constexpr operand_facts facts_of(const X& x) {
  if constexpr (is_traced<X>) return x.facts();
  else if constexpr (is_param<X>)
    return {.origin = origin::parameter, .slot = x.is_frozen() ? nullptr : &x.slot(), .version = &x.version()};
  else if constexpr (is_state<X>) return {.version = &x.version(), .state = true};
  else if constexpr (is_computed_param<X>) return facts_of(*x.of);
  else return {.present = static_cast<bool>(x.storage()), .tensor = true, .origin = x.storage().origin()};
}

// An operand without its recorder. Operations are compiled for these, so that all recorders share one copy.
template <class X>
constexpr decltype(auto) stripped(X&& x) {
  if constexpr (!is_traced<std::remove_cvref_t<X>>) return std::forward<X>(x);
  else if constexpr (std::is_lvalue_reference_v<X>) return x.carried();
  else return x.moved();
}

// The version of a parameter or state when an operation saved it; empty for other operands.
struct saved_version {
  const std::uint64_t* now = nullptr;
  std::uint64_t before = 0;

  constexpr saved_version() = default;
  constexpr saved_version(const operand_facts& of, bool saved)
      : now(saved ? of.version : nullptr), before(now == nullptr ? 0 : *now) {}
  constexpr bool was_changed() const { return now != nullptr && *now != before; }
};

template <class X>
concept carries_value = is_traced<X> || is_model_tensor<X>;
template <class X>
inline constexpr bool is_a_plain_tensor = is_tensor<X>;
}  // namespace detail

/// Reading a parameter, a state or a traced value does not compile: reading ends the gradient, so the code has to say
/// `item(x.value())`.
template <detail::carries_value X>
constexpr void item(const X&) {
  static_assert(detail::is_a_plain_tensor<X>, "item(x): x must be a plain tensor; write item(x.value())");
}
template <detail::carries_value X>
constexpr void to_host(const X&) {
  static_assert(detail::is_a_plain_tensor<X>, "to_host(x): x must be a plain tensor; write to_host(x.value())");
}
template <detail::carries_value X>
constexpr void clone(const X&) {
  static_assert(detail::is_a_plain_tensor<X>, "clone(x): x must be a plain tensor; write clone(x.value())");
}

}  // namespace gradus
