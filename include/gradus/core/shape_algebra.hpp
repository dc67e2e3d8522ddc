#pragma once
// Shape rules of the operations: constexpr functions from extents to extents. nvcc 13 rejects classes with arrays in a
// kernel's template arguments, so results are packs of std::size_t (make_shape).

#include <array>
#include <cstddef>
#include <utility>

#include "shape.hpp"

namespace gradus {

namespace detail {

/// The shape whose extents are F{}()[0 .. Rank-1]; F is a captureless constexpr lambda type.
template <index_t Rank, class F, class = std::make_index_sequence<Rank>>
struct shape_from;
template <index_t Rank, class F, index_t... I>
struct shape_from<Rank, F, std::index_sequence<I...>> {
  using type = shape<F{}()[I]...>;
};

template <class S>
constexpr index_t padded_extent(index_t axis_from_back) {
  if constexpr (S::rank == 0) return 1;
  else return axis_from_back < S::rank ? S::extents[S::rank - 1 - axis_from_back] : index_t{1};
}

template <class... S>
constexpr index_t max_rank() {
  index_t r = 0;
  const auto grow = [&r](index_t rank) { r = rank > r ? rank : r; };
  (grow(S::rank), ...);
  return r;
}

template <class... S>
struct broadcast_rule {
  static constexpr index_t rank = max_rank<S...>();
  static constexpr bool valid() {
    for (index_t i = 0; i != rank; ++i) {
      index_t e = 1;
      bool ok = true;
      auto one = [&](index_t x) {
        if (x != 1 && e != 1 && x != e) ok = false;
        if (x != 1) e = x;
      };
      (one(padded_extent<S>(i)), ...);
      if (!ok) return false;
    }
    return true;
  }
  static constexpr std::array<index_t, rank> extents() {
    std::array<index_t, rank> out{};
    for (index_t i = 0; i != rank; ++i) {
      index_t e = 1;
      ((e = padded_extent<S>(i) > e ? padded_extent<S>(i) : e), ...);
      out[rank - 1 - i] = e;
    }
    return out;
  }
  struct list {
    constexpr auto operator()() const { return extents(); }
  };
  using type = typename shape_from<rank, list>::type;
};

}  // namespace detail

/// True if the shapes agree axis by axis from the back; an extent of 1 or a missing axis fits any other.
template <class... Shapes>
inline constexpr bool can_broadcast = detail::broadcast_rule<Shapes...>::valid();

/// The common shape of operands that broadcast together (NumPy's rule).
template <class... Shapes>
using broadcast_shape = typename detail::broadcast_rule<Shapes...>::type;

/// A list of axes as a type; negative axes count from the back.
template <std::ptrdiff_t... Axes>
struct axes {
  static constexpr index_t count = sizeof...(Axes);
  /// True if `axis` (from the front, of a tensor of `rank` axes) is in the list; an empty list means every axis.
  static constexpr bool contains([[maybe_unused]] index_t axis, [[maybe_unused]] index_t rank) {
    if (count == 0) return true;
    return ((static_cast<index_t>(Axes < 0 ? Axes + static_cast<std::ptrdiff_t>(rank) : Axes) == axis) || ...);
  }
  /// True if a tensor of `rank` axes has all listed axes.
  static constexpr bool valid([[maybe_unused]] index_t rank) {
    return ((Axes < static_cast<std::ptrdiff_t>(rank) && Axes >= -static_cast<std::ptrdiff_t>(rank)) && ...);
  }
  /// True if no axis is listed twice, as in axes<1, -1> of a matrix.
  static constexpr bool different(index_t rank) {
    index_t named = 0;
    for (index_t axis = 0; axis < rank; ++axis) named += contains(axis, rank) ? 1 : 0;
    return count == 0 || named == count;
  }
};

namespace detail {

template <class S, class Axes, bool Keep>
struct reduce_rule {
  static constexpr index_t rank = [] {
    index_t r = 0;
    for (index_t i = 0; i != S::rank; ++i) r += (Keep || !Axes::contains(i, S::rank)) ? 1 : 0;
    return r;
  }();
  struct list {
    constexpr auto operator()() const {
      std::array<index_t, rank> out{};
      index_t n = 0;
      for (index_t i = 0; i != S::rank; ++i) {
        if (!Axes::contains(i, S::rank)) out[n++] = S::extents[i];
        else if (Keep) out[n++] = 1;
      }
      return out;
    }
  };
  using type = typename shape_from<rank, list>::type;
};

template <class S, index_t... Order>
struct permute_rule {
  struct list {
    constexpr auto operator()() const { return std::array<index_t, S::rank>{S::extents[Order]...}; }
  };
  using type = typename shape_from<S::rank, list>::type;
};
// Separate from the rule, which cannot be instantiated if the order names a missing axis.
template <index_t Rank, index_t... Order>
constexpr bool names_each_axis_once() {
  if (sizeof...(Order) != Rank) return false;
  constexpr std::array<index_t, sizeof...(Order)> order{Order...};
  for (index_t i = 0; i < order.size(); ++i) {
    if (order[i] >= Rank) return false;
    for (index_t j = 0; j < i; ++j)
      if (order[i] == order[j]) return false;
  }
  return true;
}

template <class S, index_t Axis, index_t Extent>
struct replace_rule {
  struct list {
    constexpr auto operator()() const {
      auto e = S::extents;
      e[Axis] = Extent;
      return e;
    }
  };
  using type = typename shape_from<S::rank, list>::type;
};

template <class S, index_t Count>
struct leading_rule {
  struct list {
    constexpr auto operator()() const {
      std::array<index_t, Count> out{};
      for (index_t i = 0; i < Count; ++i) out[i] = S::extents[i];
      return out;
    }
  };
  using type = typename shape_from<Count, list>::type;
};

template <class A, class B>
struct join_rule;
template <index_t... A, index_t... B>
struct join_rule<shape<A...>, shape<B...>> {
  using type = shape<A..., B...>;
};

}  // namespace detail

/// `S` without the listed axes, or with extent 1 for them if `Keep`.
template <class S, class Axes, bool Keep = false>
using reduced_shape = typename detail::reduce_rule<S, Axes, Keep>::type;

/// `S` with its axes in the given order.
template <class S, index_t... Order>
using permuted_shape = typename detail::permute_rule<S, Order...>::type;
/// True if the order names each axis of `S` once.
template <class S, index_t... Order>
inline constexpr bool is_permutation_of = detail::names_each_axis_once<S::rank, Order...>();

/// `S` with the extent of one axis replaced.
template <class S, index_t Axis, index_t Extent>
using with_extent = typename detail::replace_rule<S, Axis, Extent>::type;

/// The first `Count` axes of `S`.
template <class S, index_t Count>
using leading_shape = typename detail::leading_rule<S, Count>::type;

/// The extents of `A` followed by those of `B`.
template <class A, class B>
using joined_shape = typename detail::join_rule<A, B>::type;

/// Rows of `S` as a matrix: the product of all extents but the last (1 for a vector).
template <class S>
inline constexpr index_t rows_of = S::rank == 0 ? 1 : S::size / S::extents[S::rank - 1];
/// Columns of `S` as a matrix: its last extent.
template <class S>
inline constexpr index_t columns_of = S::rank == 0 ? 1 : S::extents[S::rank == 0 ? 0 : S::rank - 1];

}  // namespace gradus
