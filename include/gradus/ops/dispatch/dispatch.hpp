#pragma once
// Rows to the places of a group order and back: dispatch_rows copies each row to its places, combine_rows adds the rows
// at its places, weighted. Both walk the tokens, not the places, so that no sum is scattered.

#include <array>
#include <string_view>
#include <type_traits>
#include <utility>

#include "../../autodiff/apply.hpp"
#include "../../core/config.hpp"
#include "../../core/cost.hpp"
#include "../../core/shape_algebra.hpp"
#include "../gather/gather.hpp"

namespace gradus {

/// `tokens` rows of `columns` elements, each with `copies` places.
struct dispatch_sizes {
  index_t tokens, copies, columns;
};

namespace detail {
template <class Places, class Extents>
constexpr dispatch_sizes dispatch_sizes_of(const Places& places, const Extents& rows) {
  return {places.extents[0], places.extents[1], rows.extents[1]};
}
}  // namespace detail

namespace op::inline GRADUS_BUILD {

/// y[places[n, k]] = x[n]. Gradient: dx[n] = sum over k of dy[places[n, k]]. Kernels: forward(ctx, y, x, places, sizes)
/// and backward(ctx, dx, accumulate, dy, places, sizes).
struct dispatch_rows {
  static constexpr std::string_view name = "dispatch_rows";
  static constexpr save_rule saves = save_inputs(1);

  template <class X, class P>
  using output_of =
      with_shape<X,
                 shape<P::shape::size + (P::shape::bounded ? gradus::detail::bounded_mark : 0), X::shape::in_type[1]>>;
  template <class X, class P>
  static constexpr flop_counts flops() {
    return {0, output_of<X, P>::size};
  }

  template <class Call, class X, class P>
  constexpr auto forward(Call how, const X& x, const P& places) const {
    using Y = output_of<X, P>;
    check_extents_meet(name, 0, x.extents().extents[0], places.extents().extents[0]);
    const index_t rows = places.extents().size;
    kernel<check_indices, typename X::device>::forward(name, places.data(), rows, rows);
    Y y(how.owner(), extents_from<typename Y::shape>([&] { return std::array{rows, x.extents().extents[1]}; }));
    kernel<dispatch_rows, typename X::device>::forward(
        how.owner(), y.data(), x.data(), places.data(),
        gradus::detail::dispatch_sizes_of(places.extents(), x.extents()));
    return y;
  }
  template <class Saved, class Y, class X, class P>
  constexpr void backward(const Saved& saved, const Y& dy, const gradient_sink<X>& dx, const gradient_sink<P>&) const {
    if constexpr (is_floating<typename X::value_type>) {
      if (!dx) return;
      auto to = dx.open(dy.owner());
      kernel<dispatch_rows, typename X::device>::backward(
          dy.owner(), to.tensor.data(), to.accumulate, dy.data(), input<1>(saved).data(),
          gradus::detail::dispatch_sizes_of(input<1>(saved).extents(), dy.extents()));
    }
  }
};

/// y[n] = sum over k of weights[n, k] x[places[n, k]]. Gradients: dx[places[n, k]] = weights[n, k] dy[n] and
/// dweights[n, k] = dy[n] . x[places[n, k]]. Kernels: forward(ctx, y, x, weights, places, sizes), and backward(ctx, dx,
/// add_to_dx, dweights, add_to_dweights, dy, x, weights, places, sizes), where one of the gradients may be null.
struct combine_rows {
  static constexpr std::string_view name = "combine_rows";
  static constexpr save_rule saves = save_inputs(0, 1, 2);

  template <class X, class W, class P>
  using output_of = with_shape<X, with_extent<typename X::shape, 0, P::shape::in_type[0]>>;
  template <class X, class W, class P>
  static constexpr flop_counts flops() {
    return {2 * X::size, 3 * X::size};
  }

  template <class Call, class X, class W, class P>
  constexpr auto forward(Call how, const X& x, const W& weights, const P& places) const {
    for (index_t i = 0; i < 2; ++i)
      check_extents_meet(name, i, weights.extents().extents[i], places.extents().extents[i]);
    check_extents_meet(name, 0, x.extents().extents[0], places.extents().size);
    kernel<check_indices, typename X::device>::forward(name, places.data(), places.extents().size,
                                                       places.extents().size);
    const auto sizes = gradus::detail::dispatch_sizes_of(places.extents(), x.extents());
    output_of<X, W, P> y(how.owner(), replaced_extents<0, P::shape::in_type[0]>(x.extents(), sizes.tokens));
    kernel<combine_rows, typename X::device>::forward(how.owner(), y.data(), x.data(), weights.data(), places.data(),
                                                      sizes);
    return y;
  }
  template <class Saved, class Y, class X, class W, class P>
  constexpr void backward(const Saved& saved, const Y& dy, const gradient_sink<X>& dx, const gradient_sink<W>& dweights,
                          const gradient_sink<P>&) const {
    using TX = typename X::value_type;
    using TW = typename W::value_type;
    TX* to_x = nullptr;
    TW* to_weights = nullptr;
    bool add_to_x = false, add_to_weights = false;
    if (dx) {
      auto to = dx.open(dy.owner());
      to_x = to.tensor.data(), add_to_x = to.accumulate;
    }
    if (dweights) {
      auto to = dweights.open(dy.owner());
      to_weights = to.tensor.data(), add_to_weights = to.accumulate;
    }
    if (!dx && !dweights) return;
    const auto& places = input<2>(saved);
    kernel<combine_rows, typename X::device>::backward(
        dy.owner(), to_x, add_to_x, to_weights, add_to_weights, dy.data(), input<0>(saved).data(),
        input<1>(saved).data(), places.data(),
        gradus::detail::dispatch_sizes_of(places.extents(), input<0>(saved).extents()));
  }
};

}  // namespace op::inline GRADUS_BUILD

namespace detail {
template <index_t RowsOfX, index_t RowsOfPlaces>
inline constexpr bool rows_of_x_equal_rows_of_places = RowsOfX == RowsOfPlaces;
template <class Rows, class Places>
inline constexpr bool each_place_has_a_row =
    bound_of(Rows::in_type[0]) == Places::size && is_bounded(Rows::in_type[0]) == Places::bounded;
template <class Weights, class Places>
inline constexpr bool weights_have_places = std::is_same_v<Weights, Places>;
}  // namespace detail

/// Copies each row to its places: x [N, C], places [N, K] -> y [N K, C], y[places[n, k]] = x[n]. `places` are a
/// permutation of 0 .. N K - 1, such as sort_by_group returns. Throws error for a place out of range (on the CPU; a GPU
/// leaves it out).
template <operand X, operand P>
GRADUS_OF_BUILD constexpr auto dispatch_rows(X&& x, P&& places) {
  using sx = shape_of<X>;
  using sp = shape_of<P>;
  GRADUS_REQUIRE("dispatch_rows(x, places): x and places must have two axes", sx::rank == 2 && sp::rank == 2)
  GRADUS_REQUIRE("dispatch_rows(x, places): places must be integers", detail::are_indices<value_of_t<P>>)
  GRADUS_REQUIRE("dispatch_rows(x, places): places must have a row for each row of x",
                 detail::rows_of_x_equal_rows_of_places<sx::in_type[0], sp::in_type[0]>)
  return apply(op::dispatch_rows{}, std::forward<X>(x), std::forward<P>(places));
}

/// Adds the rows at each token's places, weighted: x [N K, C], weights [N, K], places [N, K] -> y [N, C], y[n] = sum
/// over k of weights[n, k] x[places[n, k]]. `places` are a permutation of the rows. Gradients flow to x and to the
/// weights. Throws error for a place out of range (on the CPU; a GPU leaves it out).
template <operand X, operand W, operand P>
GRADUS_OF_BUILD constexpr auto combine_rows(X&& x, W&& weights, P&& places) {
  using sx = shape_of<X>;
  using sw = shape_of<W>;
  using sp = shape_of<P>;
  GRADUS_REQUIRE("combine_rows(x, weights, places): x and places must have two axes", sx::rank == 2 && sp::rank == 2)
  GRADUS_REQUIRE("combine_rows(x, weights, places): places must be integers", detail::are_indices<value_of_t<P>>)
  GRADUS_REQUIRE("combine_rows(x, weights, places): weights must have the shape of places",
                 detail::weights_have_places<sw, sp>)
  GRADUS_REQUIRE("combine_rows(x, weights, places): x must have a row for each of the places",
                 detail::each_place_has_a_row<sx, sp>)
  return apply(op::combine_rows{}, std::forward<X>(x), std::forward<W>(weights), std::forward<P>(places));
}

}  // namespace gradus
