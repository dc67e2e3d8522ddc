#pragma once
// The same elements with another shape, without kernel or copy, in forward and backward.

#include <string_view>
#include <utility>

#include "../../autodiff/apply.hpp"
#include "../../core/config.hpp"
#include "../../core/cost.hpp"

namespace gradus {

namespace detail {
template <index_t ElementsOfX, index_t ElementsOfShape>
inline constexpr bool elements_equal = ElementsOfX == ElementsOfShape;
}

namespace op::inline GRADUS_BUILD {

/// Shares its operand's elements; so does its gradient.
template <class Shape>
struct reshape {
  static constexpr std::string_view name = "reshape";
  static constexpr save_rule saves = save_nothing();
  static constexpr bool shares_elements = true;
  template <class X>
  static constexpr cost forward_cost() {
    return {};
  }
  template <class X>
  static constexpr cost backward_cost() {
    return {};
  }

  template <class X>
  constexpr auto forward(auto, X x) const {
    return with_shape<X, Shape>(std::move(x).storage());
  }
  template <class Saved, class Y, class X>
  constexpr void backward(const Saved&, Y dy, const gradient_sink<X>& dx) const {
    if (dx) dx.give(with_shape<Y, typename X::shape>(std::move(dy).storage()));
  }
};

}  // namespace op::inline GRADUS_BUILD

/// x with the shape [Extents...] of as many elements, row-major. Shares x's elements.
template <index_t... Extents, operand X>
GRADUS_OF_BUILD constexpr auto reshape(X&& x) {
  static_assert(detail::elements_equal<shape_of<X>::size, shape<Extents...>::size>,
                "reshape<extents...>(x): the new shape must have as many elements as x");
  if constexpr (detail::elements_equal<shape_of<X>::size, shape<Extents...>::size>)
    return apply(op::reshape<shape<Extents...>>{}, std::forward<X>(x));
}

/// The parameter p as a value of x's recording, for operations on parameters alone, whose results are otherwise plain
/// and not recorded. If x is plain, so is the result. Shares p's elements; if x is plain and in another context, copies
/// them there, where the computation runs, possibly on another thread.
template <class Policy, index_t... Extents, operand X>
GRADUS_OF_BUILD constexpr auto watch(const param<Policy, Extents...>& p, const X& x) {
  detail::check_initialised("watch", 1, p);
  const op::reshape<typename param<Policy, Extents...>::shape> same;
  if constexpr (is_traced<X>) return x.recorder().record(same, p);
  else {
    using tensor_type = tensor_of<param<Policy, Extents...>>;
    auto& ctx = plain(x).owner();
    if (&ctx == &p.value().owner()) return tensor_type(detail::run_unrecorded(ctx, ctx.current().phase, same, p));
    tensor_type copy(ctx);
    device_access<typename tensor_type::device>::copy(ctx, copy.data(), p.value().data(), copy.bytes);
    copy.storage().mark(origin::parameter);
    return copy;
  }
}

// An extent of 0 or less does not compile.
namespace detail {
template <auto... Extents>
inline constexpr bool extents_are_positive = ((Extents > 0) && ...);
}  // namespace detail
template <auto... Extents, operand X>
  requires((Extents < 0) || ...)
GRADUS_OF_BUILD constexpr auto reshape(X&& x) {  // the compiler prints the message first
  static_assert(detail::extents_are_positive<Extents...>,
                "reshape<extents...>(x): write every extent; -1 is not inferred");
  return tensor_of<X>(plain(x));
}

}  // namespace gradus
