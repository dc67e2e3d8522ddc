#pragma once
// Functions on plain tensors that parameters and traced values do not compile with: a value that is read leaves the
// recording, so it is asked for by name.

#include "../tensor/creation.hpp"
#include "operand.hpp"

namespace gradus {

namespace detail {
template <class X>
concept carries_value = is_traced<X> || is_param<X>;
template <class X>
inline constexpr bool is_a_plain_tensor = is_tensor<X>;
}  // namespace detail

/// Not of a parameter or a traced value: `item(x.value())`, `to_host(x.value())`, `clone(x.value())`.
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
