#pragma once
// gather, index_select, scatter_add and one_hot: entries at run-time indices, by one indexed move and its transpose.

#include <cstddef>
#include <string_view>
#include <type_traits>
#include <utility>

#include "../../autodiff/apply.hpp"
#include "../../core/config.hpp"
#include "../../core/cost.hpp"
#include "../../core/shape_algebra.hpp"
#include "../slice/slice.hpp"

namespace gradus {

/// Entries of x [outer, rows, inner] that become y [outer, count, inner]: y's entry i is x's entry `indices[i]`; with
/// `each`, every element of y has its own index.
struct indexed_move {
  index_t outer, count, rows, inner;
  bool each;
};

namespace op::inline GRADUS_BUILD {

/// Kernels: forward(ctx, y, x, indices, move) copies; backward(ctx, to, from, indices, move) adds y's elements `from`
/// to x's elements `to`, in an order that the problem determines. An index out of range reads as NaN (0 for integers),
/// and adds nothing.
struct move_indexed {};
/// Throws error if an index is outside 0 .. rows-1, on devices that can: forward(name, indices, count, rows).
struct check_indices {};

/// Throws error unless x and indices have equal extents but for the axis.
template <index_t Axis, class X, class Id>
constexpr void check_beside(std::string_view name, const X& x, const Id& indices) {
  for (index_t i = 0; i < X::rank; ++i)
    if (i != Axis) check_extents_meet(name, i, x.extents().extents[i], indices.extents().extents[i]);
}

/// Entries of x along an axis, at a vector of indices, or at an index for each element of the output. Gradient: adds
/// each element's to the one that it came from.
template <index_t Axis, bool Each>
struct pick {
  static constexpr std::string_view name = Each ? "gather" : "index_select";
  static constexpr save_rule saves = save_inputs(1);
  static constexpr unsigned selected_operands = 0b1;

  template <class X, class Id>
  using output_of = with_shape<X, with_extent<typename X::shape, Axis, Id::shape::in_type[Each ? Axis : 0]>>;
  template <class X, class Id>
  static constexpr flop_counts flops() {
    return {0, output_of<X, Id>::size};
  }
  template <class ExtentsOfX, class ExtentsOfI>
  static constexpr indexed_move move_of(const ExtentsOfX& x, const ExtentsOfI& indices) {
    const index_t rows = x.extents[Axis], inner = x.stride(Axis);
    return {x.size / (rows * inner), indices.extents[Each ? Axis : 0], rows, inner, Each};
  }

  template <class Call, class X, class Id>
  constexpr auto forward(Call how, const X& x, const Id& indices) const {
    const indexed_move move = move_of(x.extents(), indices.extents());
    if constexpr (Each) check_beside<Axis>(name, x, indices);
    kernel<check_indices, typename X::device>::forward(name, indices.data(), indices.extents().size, move.rows);
    constexpr index_t in_type = Id::shape::in_type[Each ? Axis : 0];
    output_of<X, Id> y(how.owner(), replaced_extents<Axis, in_type>(x.extents(), move.count));
    kernel<move_indexed, typename X::device>::forward(how.owner(), y.data(), x.data(), indices.data(), move);
    return y;
  }
  template <class Saved, class Y, class X, class Id>
  constexpr void backward(const Saved& saved, const Y& dy, const gradient_sink<X>& dx, const gradient_sink<Id>&) const {
    if constexpr (is_floating<typename X::value_type>) {
      if (!dx) return;
      dx.template write_as<compute_type<typename Y::value_type>>(dy.owner(), [&](auto to) {
        if (!to.accumulate) device_access<typename X::device>::zero(dy.owner(), to.tensor.data(), to.tensor.bytes);
        kernel<move_indexed, typename X::device>::backward(dy.owner(), to.tensor.data(), dy.data(),
                                                           input<1>(saved).data(),
                                                           move_of(dx.extents(), input<1>(saved).extents()));
      });
    }
  }
};

/// x with values added at indices along an axis: at a vector of indices, or at an index for each value. Gradients: dx =
/// dy, dvalues = dy at the indices.
template <index_t Axis, bool Each>
struct scatter_add {
  static constexpr std::string_view name = Each ? "scatter_add" : "index_add";
  static constexpr save_rule saves = save_inputs(1);

  template <class X, class Id, class V>
  static constexpr flop_counts flops() {
    return {V::size, 0};
  }

  template <class Call, class X, class Id, class V>
  constexpr auto forward(Call how, X x, const Id& indices, const V& values) const {
    using T = typename X::value_type;
    using C = compute_type<T>;
    using D = typename X::device;
    auto& ctx = how.owner();
    const indexed_move move = pick<Axis, Each>::move_of(x.extents(), indices.extents());
    check_beside<Axis>(name, x, values);
    for (index_t i = 0; i < Id::rank; ++i)
      check_extents_meet(name, Each ? i : Axis, indices.extents().extents[i],
                         values.extents().extents[Each ? i : Axis]);
    kernel<check_indices, D>::forward(name, indices.data(), indices.extents().size, move.rows);
    const auto add = [&](auto& to) {
      kernel<move_indexed, D>::backward(ctx, to.data(), values.data(), indices.data(), move);
    };
    if constexpr (std::is_same_v<T, C>) {
      if (!x.unique()) x = copy_of(ctx, x);
      add(x);
    } else {  // rounds each sum once
      tensor<C, typename X::shape, D> sum(ctx, x.extents(), category::temporary);
      kernel<convert, D>::forward(ctx, sum.data(), std::as_const(x).data(), x.extents().size, false);
      add(sum);
      if (!x.unique()) x = X(ctx, x.extents());
      kernel<convert, D>::forward(ctx, x.data(), std::as_const(sum).data(), x.extents().size, false);
    }
    return x;
  }
  template <class Saved, class Y, class X, class Id, class V>
  constexpr void backward(const Saved& saved, Y dy, const gradient_sink<X>& dx, const gradient_sink<Id>&,
                          const gradient_sink<V>& dvalues) const {
    if constexpr (is_floating<typename X::value_type>) {
      if (dvalues) {
        with_shape<Y, typename V::shape> at(dy.owner(), dvalues.extents(), category::gradient);
        kernel<move_indexed, typename X::device>::forward(
            dy.owner(), at.data(), std::as_const(dy).data(), input<1>(saved).data(),
            pick<Axis, Each>::move_of(dx.extents(), input<1>(saved).extents()));
        dvalues.give(std::move(at));
      }
      if (dx) dx.give(std::move(dy));
    }
  }

 private:
  template <class X>
  static constexpr X copy_of(context<typename X::device>& ctx, const X& x) {
    X y(ctx, x.extents());
    device_access<typename X::device>::copy(ctx, y.data(), x.data(), x.extents().size * sizeof(typename X::value_type));
    return y;
  }
};

/// 1 at each index and 0 elsewhere. No gradient. Kernel: forward(ctx, y, indices, count).
template <index_t Classes, class T>
struct one_hot {
  static constexpr std::string_view name = "one_hot";
  static constexpr save_rule saves = save_nothing();

  template <class Id>
  using output_of = tensor<T, joined_shape<typename Id::shape, shape<Classes>>, typename Id::device>;

  template <class Call, class Id>
  constexpr auto forward(Call how, const Id& indices) const {
    kernel<check_indices, typename Id::device>::forward(name, indices.data(), indices.extents().size, Classes);
    output_of<Id> y(how.owner(), joined_extents<shape<Classes>>(indices.extents(), {Classes}));
    kernel<one_hot, typename Id::device>::forward(how.owner(), y.data(), indices.data(), indices.extents().size);
    return y;
  }
  template <class... Ignored>
  constexpr void backward(const Ignored&...) const {}
};

}  // namespace op::inline GRADUS_BUILD

namespace detail {
template <class T>
inline constexpr bool are_indices = std::is_integral_v<T> && !std::is_same_v<T, bool>;
template <class Values, class Indices>
inline constexpr bool values_have_indices = std::is_same_v<Values, Indices>;
template <index_t Rank>
inline constexpr bool is_vector_of_indices = Rank == 1;
template <class Values, class X, class Indices, index_t Axis>
inline constexpr bool values_are_beside = std::is_same_v<Values, with_extent<X, Axis, Indices::in_type[0]>>;
}  // namespace detail

/// The elements of x at indices along Axis: y[.., i, ..] = x[.., indices[.., i, ..], ..]. `indices` are integers of the
/// output's shape, which is x's but for the extent of Axis. Throws error for an index outside 0 .. n-1 (on the CPU; on
/// a GPU it reads as NaN).
template <std::ptrdiff_t Axis, operand X, operand Id>
GRADUS_OF_BUILD constexpr auto gather(X&& x, Id&& indices) {
  constexpr index_t axis = detail::axis_from_front<shape_of<X>::rank>(Axis);
  GRADUS_REQUIRE("gather<axis>(x, indices): x has no such axis", detail::axis_exists<axis, shape_of<X>::rank>)
  GRADUS_REQUIRE("gather<axis>(x, indices): indices must be integers", detail::are_indices<value_of_t<Id>>)
  GRADUS_REQUIRE("gather<axis>(x, indices): indices need the shape of x, but for the axis",
                 detail::shapes_fit_beside<shape_of<Id>, shape_of<X>, axis>)
  return apply(op::pick<axis, true>{}, std::forward<X>(x), std::forward<Id>(indices));
}

/// The entries of x along Axis at a vector of integers: x [.., n, ..], indices [k] -> [.., k, ..]. Throws error for an
/// index outside 0 .. n-1 (on the CPU; on a GPU it reads as NaN).
template <std::ptrdiff_t Axis, operand X, operand Id>
GRADUS_OF_BUILD constexpr auto index_select(X&& x, Id&& indices) {
  constexpr index_t axis = detail::axis_from_front<shape_of<X>::rank>(Axis);
  GRADUS_REQUIRE("index_select<axis>(x, indices): x has no such axis", detail::axis_exists<axis, shape_of<X>::rank>)
  GRADUS_REQUIRE("index_select<axis>(x, indices): indices must be a vector of integers",
                 detail::are_indices<value_of_t<Id>> && detail::is_vector_of_indices<shape_of<Id>::rank>)
  return apply(op::pick<axis, false>{}, std::forward<X>(x), std::forward<Id>(indices));
}

/// x with values added along Axis: y[.., indices[.., i, ..], ..] += values[.., i, ..]. `indices` and `values` have the
/// shape of x but for the extent of Axis. The order of sums depends on the indices alone: the same bits with any number
/// of threads, and on a GPU in every run. Throws error for an index outside 0 .. n-1 (on the CPU; a GPU leaves it out).
template <std::ptrdiff_t Axis, operand X, operand Id, operand V>
GRADUS_OF_BUILD constexpr auto scatter_add(X&& x, Id&& indices, V&& values) {
  constexpr index_t axis = detail::axis_from_front<shape_of<X>::rank>(Axis);
  GRADUS_REQUIRE("scatter_add<axis>(x, indices, values): x has no such axis",
                 detail::axis_exists<axis, shape_of<X>::rank>)
  GRADUS_REQUIRE("scatter_add<axis>(x, indices, values): indices must be integers", detail::are_indices<value_of_t<Id>>)
  GRADUS_REQUIRE("scatter_add<axis>(x, indices, values): x and values must have one element type",
                 std::is_same_v<value_of_t<X>, value_of_t<V>>)
  GRADUS_REQUIRE("scatter_add<axis>(x, indices, values): indices need the shape of x, but for the axis",
                 detail::shapes_fit_beside<shape_of<Id>, shape_of<X>, axis>)
  GRADUS_REQUIRE("scatter_add<axis>(x, indices, values): values need the shape of indices",
                 detail::values_have_indices<shape_of<V>, shape_of<Id>>)
  return apply(op::scatter_add<axis, true>{}, std::forward<X>(x), std::forward<Id>(indices), std::forward<V>(values));
}

/// x with whole entries added along Axis at a vector of integers: x [.., n, ..], indices [k], values [.., k, ..];
/// y[.., indices[i], ..] += values[.., i, ..]. The order of sums and the errors are as in scatter_add().
template <std::ptrdiff_t Axis, operand X, operand Id, operand V>
GRADUS_OF_BUILD constexpr auto index_add(X&& x, Id&& indices, V&& values) {
  constexpr index_t axis = detail::axis_from_front<shape_of<X>::rank>(Axis);
  GRADUS_REQUIRE("index_add<axis>(x, indices, values): x has no such axis",
                 detail::axis_exists<axis, shape_of<X>::rank>)
  GRADUS_REQUIRE("index_add<axis>(x, indices, values): indices must be a vector of integers",
                 detail::are_indices<value_of_t<Id>> && detail::is_vector_of_indices<shape_of<Id>::rank>)
  GRADUS_REQUIRE("index_add<axis>(x, indices, values): x and values must have one element type",
                 std::is_same_v<value_of_t<X>, value_of_t<V>>)
  GRADUS_REQUIRE("index_add<axis>(x, indices, values): values need the shape of x, with an entry for each index",
                 detail::values_are_beside<shape_of<V>, shape_of<X>, shape_of<Id>, axis>)
  return apply(op::scatter_add<axis, false>{}, std::forward<X>(x), std::forward<Id>(indices), std::forward<V>(values));
}

/// A row of Classes elements T for each index, 1 at the index and 0 elsewhere: [...] -> [..., Classes]. Throws error
/// for an index outside 0 .. Classes-1 (on the CPU; on a GPU its row is 0).
template <std::ptrdiff_t Classes, class T = float, operand Id>
GRADUS_OF_BUILD constexpr auto one_hot(Id&& indices) {
  GRADUS_REQUIRE("one_hot<classes>(indices): indices must be integers", detail::are_indices<value_of_t<Id>>)
  GRADUS_REQUIRE("one_hot<classes>(indices): classes must be at least 1", Classes >= 1)
  return apply(op::one_hot<static_cast<index_t>(Classes), T>{}, std::forward<Id>(indices));
}

}  // namespace gradus
