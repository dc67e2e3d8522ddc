#pragma once
// Elements in another shape, without kernel or copy, in forward and backward.

#include <cstddef>
#include <string_view>
#include <utility>

#include "../../autodiff/apply.hpp"
#include "../../core/config.hpp"
#include "../../core/cost.hpp"
#include "../../core/shape_algebra.hpp"

namespace gradus {

namespace detail {
template <index_t ElementsOfX, index_t ElementsOfShape>
inline constexpr bool elements_equal = ElementsOfX == ElementsOfShape;
template <class ShapeOfX, class Shape>
inline constexpr bool keeps_a_bounded_axis = !ShapeOfX::bounded || Shape::bounded;
}  // namespace detail

namespace op::inline GRADUS_BUILD {

/// Shares its operand's elements; so does its gradient.
template <class Shape>
struct reshape {
  [[no_unique_address]] extents_of<Shape> to{};  ///< of a bounded shape; none: x's, as reshaped_extents says

  static constexpr std::string_view name = "reshape";
  static constexpr save_rule saves = save_nothing();
  static constexpr bool shares_elements = true;

  template <class X>
  constexpr auto forward(auto, X x) const {
    const extents_of<Shape> extents = to.size == 0 ? reshaped_extents<Shape>(x.extents()) : to;
    if (extents.size != x.extents().size) gradus::detail::fail_reshape(x.extents().size, extents.size);
    return with_shape<X, Shape>(std::move(x).storage(), extents);
  }
  template <class Saved, class Y, class X>
  constexpr void backward(const Saved&, Y dy, const gradient_sink<X>& dx) const {
    if (dx) dx.give(with_shape<Y, typename X::shape>(std::move(dy).storage(), dx.extents()));
  }
};

}  // namespace op::inline GRADUS_BUILD

/// x with the shape [Extents...] of as many elements, row-major. Shares x's elements.
template <index_t... Extents, operand X>
GRADUS_OF_BUILD constexpr auto reshape(X&& x) {
  GRADUS_REQUIRE("reshape<extents...>(x): the new shape must have as many elements as x",
                 detail::elements_equal<shape_of<X>::size, shape<Extents...>::size>)
  GRADUS_REQUIRE("reshape<extents...>(x): x is bounded, so the new shape needs a bounded axis",
                 detail::keeps_a_bounded_axis<shape_of<X>, shape<Extents...>>)
  return apply(op::reshape<shape<Extents...>>{}, std::forward<X>(x));
}

/// x with a bounded shape whose extents do not follow from x's: `reshape<upto<8>, upto<9>>(x, {2, 3})` of [upto<72>]
/// with six elements. Shares x's elements. Throws error if `extents` have another number of elements.
template <index_t... Extents, operand X>
GRADUS_OF_BUILD constexpr auto reshape(X&& x, const extents_of<shape<Extents...>>& extents) {
  GRADUS_REQUIRE("reshape<extents...>(x): the new shape must have as many elements as x",
                 detail::elements_equal<shape_of<X>::size, shape<Extents...>::size>)
  return apply(op::reshape<shape<Extents...>>{extents}, std::forward<X>(x));
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

/// The constant t as a value of x's recording; t itself if x is plain. No gradient flows to it.
template <class T, class S, class D, operand X>
GRADUS_OF_BUILD constexpr auto watch(const tensor<T, S, D>& t, const X& x) {
  if constexpr (is_traced<X>) return x.recorder().record(op::reshape<S>{}, t);
  else return t;
}

// An extent of -1 is inferred.
namespace detail {
template <auto... Extents>
inline constexpr bool one_extent_is_open = ((static_cast<std::ptrdiff_t>(Extents) == -1 ? 1 : 0) + ...) == 1 &&
                                           ((static_cast<std::ptrdiff_t>(Extents) == -1 || Extents > 0) && ...);
template <index_t Elements, index_t Others>
inline constexpr bool others_divide_elements = Elements % Others == 0;
}  // namespace detail
/// x reshaped, with one extent of -1 inferred: `reshape<-1, 2>(x)` of six elements is [3, 2]. Shares x's
/// elements.
template <auto... Extents, operand X>
  requires((Extents < 0) || ...)
GRADUS_OF_BUILD constexpr auto reshape(X&& x) {
  GRADUS_REQUIRE("reshape<extents...>(x): one extent may be -1, which is inferred; the others must be at least 1",
                 detail::one_extent_is_open<Extents...>)
  {
    using s = shape_of<X>;
    constexpr index_t elements = s::size;
    constexpr index_t others = ((Extents < 0 ? index_t{1} : detail::bound_of(static_cast<index_t>(Extents))) * ...);
    constexpr index_t bounded = ((Extents > 0 && detail::is_bounded(static_cast<index_t>(Extents)) ? 1 : 0) + ...);
    constexpr index_t open = elements / others + (s::bounded_axes > bounded ? detail::bounded_mark : 0);
    GRADUS_REQUIRE("reshape<extents...>(x): the product of the other extents must divide the number of elements of x",
                   detail::others_divide_elements<elements, others>)
    return reshape<(Extents < 0 ? open : static_cast<index_t>(Extents))...>(std::forward<X>(x));
  }
}

}  // namespace gradus
