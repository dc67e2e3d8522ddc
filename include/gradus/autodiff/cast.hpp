#pragma once
#include <string_view>
#include <type_traits>
#include <utility>

#include "../core/config.hpp"
#include "../core/cost.hpp"
#include "../tensor/param.hpp"
#include "saved.hpp"

namespace gradus::op::inline GRADUS_BUILD {

/// Another element type. The gradient is cast back.
template <class T>
struct cast {
  static constexpr std::string_view name = "cast";
  static constexpr save_rule saves = save_nothing();

  template <class X>
  using output_of = tensor<T, typename X::shape, typename X::device>;
  template <class X>
  static constexpr cost forward_cost() {
    return {0, X::bytes, output_of<X>::bytes};
  }
  template <class X>
  static constexpr cost backward_cost() {
    return {0, output_of<X>::bytes, X::bytes};
  }

  template <class Call, class X>
  constexpr output_of<X> forward(Call how, const X& x) const {
    if constexpr (std::is_same_v<X, output_of<X>>) return x;
    else {
      output_of<X> y(how.owner());
      kernel<convert, typename X::device>::forward(how.owner(), y.data(), x.data(), X::size, false);
      return y;
    }
  }
  template <class Saved, class Y, class X>
  constexpr void backward(const Saved&, Y dy, const gradient_sink<X>& dx) const {
    if (dx) dx.give(std::move(dy));
  }
};

}  // namespace gradus::op::inline GRADUS_BUILD
