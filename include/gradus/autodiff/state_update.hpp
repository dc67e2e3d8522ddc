#pragma once
// Writes a state of a model from forward.

#include <string>
#include <type_traits>

#include "../core/config.hpp"
#include "../core/error.hpp"
#include "../core/shape_text.hpp"
#include "../memory/context.hpp"
#include "../tensor/state.hpp"
#include "traced.hpp"

namespace gradus {

namespace detail {
template <class State, class Shape, class Device>
inline constexpr bool state_takes =
    std::is_same_v<typename State::shape, Shape> && std::is_same_v<typename State::device, Device>;

[[noreturn]] inline void fail_state_update(const index_t* extents, index_t rank, bool shared) {
  throw error("state.update(x, value): the state of " + text_of_extents(extents, rank) +
              (shared ? " shares its elements with a recording or a tensor, which would change; update it before it is "
                        "read, or read gradus::clone(state.value())"
                      : " has no memory yet; call gradus::init(model, context, rule) first"));
}
}  // namespace detail

template <class X, index_t... Extents>
template <class Operand, class Value>
constexpr void state<X, Extents...>::update(const Operand& x, const Value& value) const {
  static_assert(operand<Operand> && operand<Value>,
                "state.update(x, value): x and value must be tensors or recorded values");
  constexpr bool fits = detail::state_takes<state, shape_of<Value>, typename Value::device>;
  static_assert(detail::state_takes<state, shape_of<Value>, typename Value::device>,
                "state.update(x, value): value must have the state's shape and device");
  if constexpr (fits && is_recorded<Operand>) {
    auto& recorder = x.recorder();
    if (!recorder.is_forward()) return;
    const auto& from = plain(value);
    from.check_present();
    content& to = known();
    if (!to.value || !to.value.storage().sole()) {
      constexpr index_t extents[] = {Extents..., 1};
      detail::fail_state_update(extents, shape::rank, static_cast<bool>(to.value));
    }
    auto& ctx = recorder.owner();
    using from_type = tensor_of<Value>;
    const typename context<device>::running now(ctx, "update state", phase::forward,
                                                {0, from_type::bytes, tensor_type::bytes});
    if constexpr (std::is_same_v<from_type, tensor_type>)
      device_access<device>::copy(ctx, to.value.data(), from.data(), tensor_type::bytes);
    else kernel<op::convert, device>::forward(ctx, to.value.data(), from.data(), shape::size, false);
    ++to.version;
  }
}

}  // namespace gradus
