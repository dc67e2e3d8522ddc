#pragma once
// custom_op(forward, backward, x...): a user-defined operation from two functions on plain tensors.

#include <cstddef>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "../core/config.hpp"
#include "../core/shape_text.hpp"
#include "apply.hpp"
#include "failures.hpp"
#include "op.hpp"

namespace gradus {

namespace op::inline GRADUS_BUILD {

/// The operation of custom_op. It saves all inputs and the output.
template <class Forward, class Backward>
struct custom {
  Forward compute;
  Backward gradient;

  static constexpr std::string_view name = "custom";
  static constexpr save_rule saves{~0u, true};

  template <class... Xs>
  constexpr auto forward(auto, const Xs&... xs) const {
    return compute(xs...);
  }
  template <class Saved, class Grad, class... Xs>
  constexpr void backward(const Saved& saved, Grad grad, const gradient_sink<Xs>&... sinks) const {
    auto found = [&]<std::size_t... Is>(std::index_sequence<Is...>) {
      return gradient(std::as_const(grad), output(saved), input<Is>(saved)...);
    }(std::index_sequence_for<Xs...>{});
    if constexpr (gradus::detail::is_tuple_like<decltype(found)>) {
      static_assert(std::tuple_size_v<decltype(found)> == sizeof...(Xs),
                    "custom_op(forward, backward, x...): backward must return one gradient for each operand");
      [&]<std::size_t... Is>(std::index_sequence<Is...>) {
        (give(std::move(std::get<Is>(found)), input<Is>(saved), sinks), ...);
      }(std::index_sequence_for<Xs...>{});
    } else {
      static_assert(sizeof...(Xs) == 1,
                    "custom_op(forward, backward, x...): backward must return a tuple, one gradient for each operand");
      (give(std::move(found), input<0>(saved), sinks), ...);
    }
  }

 private:
  // Ignores the gradient of an integer operand, which can be of any type (std::ignore, say).
  template <class G, class Value, class X>
  static constexpr void give(G found, const Value&, const gradient_sink<X>& sink) {
    if constexpr (is_floating<typename X::value_type>) {
      static_assert(std::is_same_v<G, Value>,
                    "custom_op(forward, backward, x...): a gradient must have the type and shape of its operand");
      if (!sink) return;
      if (found.extents().extents != sink.extents().extents)
        gradus::detail::fail_custom_gradient(gradus::detail::shape_text<typename X::shape>(found.extents()),
                                             gradus::detail::shape_text<typename X::shape>(sink.extents()));
      sink.give(std::move(found));
    }
  }
};

}  // namespace op::inline GRADUS_BUILD

/// Applies an operation that is given by two callables on plain tensors. `forward(x...)` returns the output;
/// `backward(gradient of the output, output, x...)` returns the gradient of the only operand, or a std::tuple with one
/// gradient for each operand (std::ignore for an integer one). On plain operands only `forward` runs.
///
/// The recording copies the captures of both. Values that backward needs besides the operands and the output are
/// captured too.
template <class Forward, class Backward, operand... Xs>
constexpr auto custom_op(Forward forward, Backward backward, Xs&&... xs) {
  static_assert(sizeof...(Xs) >= 1, "custom_op(forward, backward, x...): needs at least one operand");
  return apply(op::custom<Forward, Backward>{std::move(forward), std::move(backward)}, std::forward<Xs>(xs)...);
}

}  // namespace gradus
