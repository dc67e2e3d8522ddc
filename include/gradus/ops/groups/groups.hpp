#pragma once
// Rows by group: how many entries each group has, and where a stable counting sort by group puts them.

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>

#include "../../autodiff/apply.hpp"
#include "../../core/config.hpp"
#include "../../core/cost.hpp"
#include "../../core/shape_algebra.hpp"
#include "../cumsum/cumsum.hpp"
#include "../elementwise/selection.hpp"
#include "../gather/gather.hpp"
#include "../slice/stack_pad_roll.hpp"

namespace gradus {

namespace op::inline GRADUS_BUILD {

/// The number of entries of each value 0 .. Bins-1. No gradient. Kernel: forward(ctx, counts, x, size, bins), which
/// leaves out other values.
template <index_t Bins>
struct bincount {
  static constexpr std::string_view name = "bincount";
  static constexpr save_rule saves = save_nothing();
  static constexpr flop_counts flops_per_element{1, 0};

  template <class X>
  using output_of = tensor<std::int32_t, shape<Bins>, typename X::device>;

  template <class Call, class X>
  constexpr auto forward(Call how, const X& x) const {
    output_of<X> counts(how.owner());
    const index_t size = x.extents().size;
    kernel<check_indices, typename X::device>::forward(name, x.data(), size, Bins);
    kernel<bincount, typename X::device>::forward(how.owner(), counts.data(), x.data(), size);
    return counts;
  }
  template <class... Ignored>
  constexpr void backward(const Ignored&...) const {}
};

/// The place of each entry: a permutation of 0 .. entries-1. Group g has the places from offsets[g] on, its entries in
/// their order. Those that do not fit before offsets[g + 1] follow behind all groups, ordered by group. No gradient.
/// Kernel: forward(ctx, places, groups, size, counts, offsets, number of groups).
struct group_places {
  static constexpr std::string_view name = "group_places";
  static constexpr save_rule saves = save_nothing();
  static constexpr flop_counts flops_per_element{1, 0};

  template <class Call, class X, class Counts, class Offsets>
  constexpr auto forward(Call how, const X& groups, const Counts& counts, const Offsets& offsets) const {
    tensor<std::int32_t, typename X::shape, typename X::device> places(how.owner(), groups.extents());
    kernel<group_places, typename X::device>::forward(how.owner(), places.data(), groups.data(), groups.extents().size,
                                                      counts.data(), offsets.data(), Counts::size);
    return places;
  }
  template <class... Ignored>
  constexpr void backward(const Ignored&...) const {}
};

}  // namespace op::inline GRADUS_BUILD

/// How entries are sorted by group; see sort_by_group.
template <class Places, class Offsets, class Counts>
struct group_order {
  Places places;    ///< of each entry, in the shape of the entries: a permutation
  Offsets offsets;  ///< [Groups + 1]: group g has the places offsets[g] .. offsets[g + 1] - 1
  Counts counts;    ///< [Groups]: entries of each group, with those that were dropped
};

namespace detail {
template <index_t Entries>
inline constexpr bool entries_fit_in_32_bits = Entries < (index_t{1} << 31);
}  // namespace detail

/// How often each value 0 .. Bins-1 occurs: integers [...] -> int32 [Bins]. No gradient. Throws error for another value
/// (on the CPU; a GPU leaves it out).
template <index_t Bins, operand X>
GRADUS_OF_BUILD constexpr auto bincount(X&& x) {
  GRADUS_REQUIRE("bincount<bins>(x): x must be integers", detail::are_indices<value_of_t<X>>)
  GRADUS_REQUIRE("bincount<bins>(x): a count must fit in 32 bits", detail::entries_fit_in_32_bits<shape_of<X>::size>)
  return apply(op::bincount<Bins>{}, std::forward<X>(x));
}

/// Sorts entries by group, stably: integers [...] of 0 .. Groups-1 -> places [...], offsets [Groups + 1] and counts
/// [Groups], integers without a gradient. A group keeps its first `capacity` entries; the others are dropped: their
/// places come after all groups. Throws error for a group out of range (on the CPU; a GPU drops its entries).
template <index_t Groups, operand X>
GRADUS_OF_BUILD constexpr auto sort_by_group(const X& groups, index_t capacity = shape_of<X>::size) {
  GRADUS_REQUIRE("sort_by_group<groups>(x): x must be integers", detail::are_indices<value_of_t<X>>)
  {
    auto counts = bincount<Groups>(groups);
    const auto most = static_cast<double>(std::min<index_t>(capacity, shape_of<X>::size));  // within 32 bits
    auto offsets = pad<0, 1, 0>(cumsum<0>(clamp(counts, 0, most)));
    auto places = apply(op::group_places{}, groups, counts, offsets);
    return group_order<decltype(places), decltype(offsets), decltype(counts)>{std::move(places), std::move(offsets),
                                                                              std::move(counts)};
  }
}

}  // namespace gradus
