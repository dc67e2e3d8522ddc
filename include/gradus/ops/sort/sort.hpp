#pragma once
// sort, argsort and topk along the last axis: one operation finds the places, gather takes the values.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "../../autodiff/apply.hpp"
#include "../../core/config.hpp"
#include "../../core/cost.hpp"
#include "../../core/shape_algebra.hpp"
#include "../gather/gather.hpp"

namespace gradus {

/// Which elements come first.
enum class sort_order : unsigned char { ascending, descending };

namespace detail {
[[noreturn]] GRADUS_NOINLINE inline void fail_topk(index_t count, index_t extent) {
  throw error("topk<" + std::to_string(count) + ">(x): the last axis has " + std::to_string(extent) + " entries");
}
}  // namespace detail

namespace op::inline GRADUS_BUILD {

/// Kernel: forward(ctx, places, x, rows, columns, count, descending) writes the places of the first `count` elements of
/// each row in order. Throws error if an element is NaN; on a device that cannot, NaN is larger than all numbers.
struct sorted_places {};

/// The places of the first Count elements of each row in order, all of a bounded row; equal elements keep their order.
/// No gradient.
template <sort_order Order, index_t Count>
struct argsort {
  static constexpr std::string_view name = "argsort";
  static constexpr save_rule saves = save_nothing();

  template <class X>
  using output_of = tensor<std::int32_t, with_extent<typename X::shape, X::shape::rank - 1, Count>, typename X::device>;

  template <class Call, class X>
  constexpr auto forward(Call how, const X& x) const {
    const index_t rows = rows_in(x.extents()), columns = columns_in(x.extents());
    const index_t count = gradus::detail::is_bounded(Count) ? columns : Count;
    if (count > columns) gradus::detail::fail_topk(Count, columns);
    output_of<X> at(how.owner(), replaced_extents<X::rank - 1, Count>(x.extents(), count));
    kernel<sorted_places, typename X::device>::forward(how.owner(), at.data(), x.data(), rows, columns, count,
                                                       Order == sort_order::descending);
    return at;
  }
  template <class... Ignored>
  constexpr void backward(const Ignored&...) const {}
};

}  // namespace op::inline GRADUS_BUILD

namespace detail {
template <index_t Rank>
inline constexpr bool has_a_last_axis = Rank >= 1;
template <index_t Extent>
inline constexpr bool places_fit_in_32_bits = Extent < (index_t{1} << 31);
template <std::ptrdiff_t Count, index_t Extent>
inline constexpr bool count_is_within = Count >= 1 && static_cast<index_t>(Count) <= Extent;
}  // namespace detail

/// The indices (std::int32_t) that sort x along its last axis: [..., n] -> [..., n]. Equal elements keep their order.
/// No gradient. Throws error if an element is NaN (on the CPU; on a GPU NaN is larger than all numbers).
template <sort_order Order = sort_order::ascending, operand X>
GRADUS_OF_BUILD constexpr auto argsort(X&& x) {
  using s = shape_of<X>;
  GRADUS_REQUIRE("argsort(x): x needs at least one axis", detail::has_a_last_axis<s::rank>)
  GRADUS_REQUIRE("argsort(x): an index must fit in 32 bits", detail::places_fit_in_32_bits<columns_of<s>>)
  return apply(op::argsort<Order, s::extent_in_type(-1)>{}, std::forward<X>(x));
}

/// x sorted along its last axis; equal elements keep their order. Throws error if an element is NaN (on the CPU; on a
/// GPU NaN is larger than all numbers).
template <sort_order Order = sort_order::ascending, operand X>
GRADUS_OF_BUILD constexpr auto sort(X&& x) {
  GRADUS_REQUIRE("sort(x): x needs at least one axis", detail::has_a_last_axis<shape_of<X>::rank>)
  {
    auto at = argsort<Order>(x);
    return gather<-1>(std::forward<X>(x), std::move(at));
  }
}

/// The Count largest elements along the last axis, in descending order, and their indices (std::int32_t), as a pair:
/// [..., n] -> [..., Count] each. Of equal elements the one with the lower index is first. Throws error if one is NaN
/// (on the CPU; on a GPU NaN is larger than all numbers).
template <std::ptrdiff_t Count, operand X>
GRADUS_OF_BUILD constexpr auto topk(X&& x) {
  using s = shape_of<X>;
  GRADUS_REQUIRE("topk<count>(x): x needs at least one axis", detail::has_a_last_axis<s::rank>)
  GRADUS_REQUIRE("topk<count>(x): count must be at least 1 and at most the last extent of x",
                 detail::count_is_within<Count, columns_of<s>>)
  GRADUS_REQUIRE("topk<count>(x): an index must fit in 32 bits", detail::places_fit_in_32_bits<columns_of<s>>)
  {
    auto at = apply(op::argsort<sort_order::descending, static_cast<index_t>(Count)>{}, x);
    auto values = gather<-1>(std::forward<X>(x), at);
    return std::pair{std::move(values), std::move(at)};
  }
}

}  // namespace gradus
