#pragma once
// Shape rules of the operations: constexpr functions from extents to extents. nvcc 13 rejects classes with arrays in a
// kernel's template arguments, so results are packs of std::size_t (make_shape).

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "error.hpp"
#include "shape.hpp"

namespace gradus {

namespace detail {

/// The shape whose extents are F{}()[0 .. Rank-1]; F is a captureless constexpr lambda type.
template <index_t Rank, class F, class = std::make_index_sequence<Rank>>
struct shape_from;
template <index_t Rank, class F, index_t... Is>
struct shape_from<Rank, F, std::index_sequence<Is...>> {
  using type = shape<F{}()[Is]...>;
};

/// The extent of an axis counted from the back, in the type; 1 for an axis that S lacks.
template <class S>
constexpr index_t padded_in_type(index_t axis_from_back) {
  if constexpr (S::rank == 0) return 1;
  else return axis_from_back < S::rank ? S::in_type[S::rank - 1 - axis_from_back] : index_t{1};
}
/// The extent, at run time, of an axis counted from the back; 1 for an axis that the extents lack.
template <class Extents>
constexpr index_t padded_extent([[maybe_unused]] const Extents& of, index_t axis_from_back) {
  if constexpr (Extents::rank == 0) return 1;
  else return axis_from_back < Extents::rank ? of.extents[Extents::rank - 1 - axis_from_back] : index_t{1};
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
      (one(padded_in_type<S>(i)), ...);
      if (!ok) return false;
    }
    return true;
  }
  static constexpr std::array<index_t, rank> extents() {
    std::array<index_t, rank> out{};
    for (index_t i = 0; i != rank; ++i) {
      index_t e = 1;
      ((e = padded_in_type<S>(i) > e ? padded_in_type<S>(i) : e), ...);
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
        if (!Axes::contains(i, S::rank)) out[n++] = S::in_type[i];
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
    constexpr auto operator()() const { return std::array<index_t, S::rank>{S::in_type[Order]...}; }
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
      auto e = S::in_type;
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
      for (index_t i = 0; i < Count; ++i) out[i] = S::in_type[i];
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

/// The extents of `A` followed by the extents of `B`.
template <class A, class B>
using joined_shape = typename detail::join_rule<A, B>::type;

// ---- the same rules on the extents of tensors, for bounded shapes --------------------------------------------------

/// The extents of a tensor of shape S: the values that `all()` returns if S is bounded, else the numbers in S.
template <class S, class F>
constexpr extents_of<S> extents_from([[maybe_unused]] const F& all) {
  if constexpr (S::bounded) return extents_of<S>(all());
  else return {};
}

namespace detail {
[[noreturn]] GRADUS_NOINLINE inline void fail_extents_differ(std::string_view op, index_t axis, index_t a, index_t b) {
  throw error(std::string(op) + ": axis " + std::to_string(axis) + " has " + std::to_string(a) +
              " entries in one operand and " + std::to_string(b) + " in another; they must be equal");
}
}  // namespace detail

/// Throws error, naming the operation and an axis of its operand, unless two bounded extents that meet are equal.
constexpr void check_extents_meet(std::string_view op, index_t axis, index_t a, index_t b) {
  if (a != b) detail::fail_extents_differ(op, axis, a, b);
}

/// The extents of operands that broadcast together. Throws error unless those that meet are equal.
template <class... S>
constexpr auto broadcast_extents([[maybe_unused]] std::string_view op, const S&... of) {
  using result = broadcast_shape<type_of_extents<S>...>;
  return extents_from<result>([&] {
    auto all = result::extents;
    for (index_t i = 0; i != result::rank; ++i) {
      index_t& e = all[result::rank - 1 - i];
      if (!detail::is_bounded(result::in_type[result::rank - 1 - i])) continue;
      e = 0;
      const auto meet = [&](index_t in_type, index_t there) {
        if (in_type == 1) return;
        if (e != 0) check_extents_meet(op, result::rank - 1 - i, e, there);
        e = there;
      };
      (meet(detail::padded_in_type<type_of_extents<S>>(i), detail::padded_extent(of, i)), ...);
    }
    return all;
  });
}

/// The extents of reduced_shape, permuted_shape and with_extent; `extent` is the one that Extent stands for.
template <class Axes, bool Keep = false, class S>
constexpr auto reduced_extents(const S& of) {
  using result = reduced_shape<type_of_extents<S>, Axes, Keep>;
  return extents_from<result>([&] {
    auto all = result::extents;
    index_t n = 0;
    for (index_t i = 0; i != S::rank; ++i)
      if (!Axes::contains(i, S::rank)) all[n++] = of.extents[i];
      else if (Keep) all[n++] = 1;
    return all;
  });
}
template <index_t... Order, class S>
constexpr auto permuted_extents(const S& of) {
  using result = permuted_shape<type_of_extents<S>, Order...>;
  return extents_from<result>([&] { return std::array<index_t, S::rank>{of.extents[Order]...}; });
}
template <index_t Axis, index_t Extent, class S>
constexpr auto replaced_extents(const S& of, index_t extent) {
  using result = with_extent<type_of_extents<S>, Axis, Extent>;
  return extents_from<result>([&] {
    auto all = of.extents;
    all[Axis] = extent;
    return all;
  });
}
template <index_t Count, class S>
constexpr auto leading_extents(const S& of) {
  using result = leading_shape<type_of_extents<S>, Count>;
  return extents_from<result>([&] {
    auto all = result::extents;
    for (index_t i = 0; i < Count; ++i) all[i] = of.extents[i];
    return all;
  });
}
template <class B, class A>
constexpr auto joined_extents(const A& a, const std::array<index_t, B::rank>& b) {
  using result = joined_shape<type_of_extents<A>, B>;
  return extents_from<result>([&] {
    auto all = result::extents;
    for (index_t i = 0; i < A::rank; ++i) all[i] = a.extents[i];
    for (index_t i = 0; i < B::rank; ++i) all[A::rank + i] = b[i];
    return all;
  });
}

namespace detail {
[[noreturn]] GRADUS_NOINLINE inline void fail_reshape(index_t has, index_t takes) {
  throw error("reshape: x has " + std::to_string(has) + " elements; with its extents, the new shape has " +
              std::to_string(takes));
}
[[noreturn]] GRADUS_NOINLINE inline void fail_open_reshape() {
  throw error(
      "reshape: two bounded extents of the new shape do not follow from those of x; say all of them, "
      "reshape<extents...>(x, {2, 3})");
}
}  // namespace detail

/// The extents of a tensor with extents `of`, reshaped to S: bounded axes keep their order and extents, and one with
/// another bound takes what is there. Throws error if there are two of these, or the elements are not as many.
template <class S, class Extents>
constexpr auto reshaped_extents([[maybe_unused]] const Extents& of) {
  return extents_from<S>([&] {
    using from = type_of_extents<Extents>;
    auto all = S::extents;
    index_t axis = 0, size = 1, open = S::rank;
    for (index_t i = 0; i != S::rank; ++i) {
      if (detail::is_bounded(S::in_type[i])) {
        index_t same = axis;
        while (same != from::rank && from::in_type[same] != S::in_type[i]) ++same;
        if (same != from::rank) all[i] = of.extents[same], axis = same + 1;
        else if (open == S::rank) all[i] = 1, open = i;
        else detail::fail_open_reshape();
      }
      size *= all[i];
    }
    if (open != S::rank) {
      all[open] = of.size / size;
      if (all[open] == 0 || all[open] > S::extents[open]) detail::fail_extent(open, all[open], S::extents[open]);
      size *= all[open];
    }
    if (size != of.size) detail::fail_reshape(of.size, size);
    return all;
  });
}

/// Rows and columns of extents as a matrix: see rows_of and columns_of.
template <class S>
constexpr index_t columns_in([[maybe_unused]] const S& of) {
  if constexpr (S::rank == 0) return 1;
  else return of.extents[S::rank - 1];
}
template <class S>
constexpr index_t rows_in(const S& of) {
  return of.size / columns_in(of);
}

/// A tensor as a matrix whose rows are its last axis. CPU kernels take this, so that one serves all shapes;
struct matrix_extents {
  index_t rows, columns;
};
/// a GPU's take the shape as well, which says how many columns a row in registers has.
template <class S>
struct shaped_matrix : matrix_extents {};
template <class E>
constexpr shaped_matrix<type_of_extents<E>> as_matrix(const E& of) {
  return {{rows_in(of), columns_in(of)}};
}

/// Rows of `S` as a matrix: the product of all extents but the last (1 for a vector).
template <class S>
inline constexpr index_t rows_of = S::rank == 0 ? 1 : S::size / S::extents[S::rank - 1];
/// Columns of `S` as a matrix: its last extent.
template <class S>
inline constexpr index_t columns_of = S::rank == 0 ? 1 : S::extents[S::rank == 0 ? 0 : S::rank - 1];

}  // namespace gradus
