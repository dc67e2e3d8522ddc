#pragma once
// A matrix product for each group of rows: operation, shape rule and gradients.

#include <string_view>
#include <type_traits>
#include <utility>

#include "../../autodiff/apply.hpp"
#include "../../core/config.hpp"
#include "../../core/cost.hpp"
#include "../../core/shape_algebra.hpp"
#include "../gather/gather.hpp"
#include "../matmul/matmul.hpp"

namespace gradus {

/// `rows` rows of `in` elements, in groups that each have a matrix of `in` x `out` elements.
struct group_sizes {
  index_t groups, rows, in, out;
};

namespace op::inline GRADUS_BUILD {

/// y = x w[g] for the rows offsets[g] .. offsets[g + 1] - 1 of x; rows outside of all groups are 0. Gradients: dx = dy
/// w[g]^T, 0 outside; dw[g] = x^T dy of the group's rows. Kernels get offsets on the device.
struct grouped_matmul {
  using family = matmul;
  static constexpr std::string_view name = "grouped_matmul";
  static constexpr op_precision precision = op_precision::low;
  static constexpr unsigned cast_operands = 0b011;
  static constexpr unsigned rounds_operands = 0b010;
  static constexpr save_rule saves = save_factors(0b100);

  template <class X, class W>
  using output_of = with_shape<X, with_extent<typename X::shape, 1, W::shape::extent_in_type(2)>>;
  template <class X, class W, class Offsets>
  static constexpr flop_counts flops() {
    return {2 * X::size * W::shape::extent(2), 4 * X::size * W::shape::extent(2)};
  }

  template <class Call, class X, class W, class Offsets>
  constexpr auto forward(Call how, const X& x, const W& w, const Offsets& offsets) const {
    auto& ctx = how.owner();
    check_extents_meet(name, 1, x.extent(1), w.extent(1));
    output_of<X, W> y(ctx, replaced_extents<1, W::shape::extent_in_type(2)>(x.extents(), w.extent(2)));
    kernel<grouped_matmul, typename X::device>::forward(accumulate_in<typename Call::products>{}, ctx, y.data(),
                                                        x.data(), w.data(), offsets.data(), sizes<W>(x.extents()));
    return y;
  }
  template <class Saved, class Y, class X, class W, class Offsets>
  constexpr void backward(const Saved& saved, const Y& dy, const gradient_sink<X>& dx, const gradient_sink<W>& dw,
                          const gradient_sink<Offsets>&) const {
    auto& ctx = dy.owner();
    using on_device = kernel<grouped_matmul, typename Y::device>;
    constexpr accumulate_in<typename Saved::products> in{};
    const auto& offsets = input<2>(saved);
    if (dx) {
      auto to = dx.open(ctx);
      on_device::backward(gradient_of<0>{}, in, ctx, to.tensor.data(), to.accumulate, dy.data(), input<1>(saved).data(),
                          offsets.data(), sizes<W>(dy.extents()));
    }
    if (dw) {
      auto to = dw.open(ctx);
      on_device::backward(gradient_of<1>{}, in, ctx, to.tensor.data(), to.accumulate, dy.data(), input<0>(saved).data(),
                          offsets.data(), sizes<W>(dy.extents()));
    }
  }

 private:
  template <class W, class Rows>
  static constexpr group_sizes sizes(const Rows& rows) {
    return {W::shape::extent(0), rows.extents[0], W::shape::extent(1), W::shape::extent(2)};
  }
};

}  // namespace op::inline GRADUS_BUILD

namespace detail {
template <index_t Matrices, index_t Offsets>
inline constexpr bool offsets_are_one_more_than_matrices = Offsets == Matrices + 1;
}  // namespace detail

/// A product for each group of rows: x [N, In], w [Groups, In, Out], offsets [Groups + 1] -> [N, Out]. The rows
/// offsets[g] .. offsets[g + 1] - 1 are multiplied by w[g]; a group may be empty. Rows outside of all groups become 0.
/// Offsets are integers that ascend, at most N, such as sort_by_group's; they are read on the device. Throws
/// error for other offsets (on the CPU; a GPU cuts them off).
template <operand X, operand W, operand Offsets>
GRADUS_OF_BUILD constexpr auto grouped_matmul(X&& x, W&& w, Offsets&& offsets) {
  using sx = shape_of<X>;
  using sw = shape_of<W>;
  using so = shape_of<Offsets>;
  GRADUS_REQUIRE("grouped_matmul(x, w, offsets): x must have two axes, w three and offsets one",
                 sx::rank == 2 && sw::rank == 3 && so::rank == 1)
  GRADUS_REQUIRE("grouped_matmul(x, w, offsets): offsets must be integers", detail::are_indices<value_of_t<Offsets>>)
  GRADUS_REQUIRE("grouped_matmul(x, w, offsets): the extents of w must be numbers", !sw::bounded)
  GRADUS_REQUIRE("grouped_matmul(x, w, offsets): columns of x must equal rows of each matrix of w",
                 detail::columns_of_x_equal_rows_of_w<sx::in_type[1], sw::in_type[1]>)
  GRADUS_REQUIRE("grouped_matmul(x, w, offsets): offsets must be one more than the matrices of w",
                 detail::offsets_are_one_more_than_matrices<sw::in_type[0], so::in_type[0]>)
  return apply(op::grouped_matmul{}, std::forward<X>(x), std::forward<W>(w), std::forward<Offsets>(offsets));
}

}  // namespace gradus
