#pragma once
// The same elements under another shape: no kernel, no copy, in either direction.

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

/// Shares its operand's elements; the gradient shares too.
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

/// x under the shape [Extents...], which has as many elements; row-major order is kept. Shares x's elements.
template <index_t... Extents, operand X>
GRADUS_OF_BUILD constexpr auto reshape(X&& x) {
  static_assert(detail::elements_equal<shape_of<X>::size, shape<Extents...>::size>,
                "reshape<extents...>(x): the new shape must have as many elements as x");
  if constexpr (detail::elements_equal<shape_of<X>::size, shape<Extents...>::size>)
    return apply(op::reshape<shape<Extents...>>{}, std::forward<X>(x));
}

/// The parameter p as a value of the recording that x belongs to, for operations on parameters alone: what they give is
/// plain, and not recorded. Where x is plain, so is the result. Shares p's elements; if x is plain and of another
/// context, it is a copy there, because what is computed from it runs in that context, which may be another thread's.
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
GRADUS_OF_BUILD constexpr auto reshape(X&& x) {  // so that the sentence comes first
  static_assert(detail::extents_are_positive<Extents...>,
                "reshape<extents...>(x): every extent must be written; -1 is not worked out");
  return tensor_of<X>(plain(x));
}

}  // namespace gradus
