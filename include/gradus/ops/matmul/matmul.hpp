#pragma once
// Matrix products and linear layers: operations, shape rules and gradients.

#include <string_view>
#include <type_traits>
#include <utility>

#include "../../autodiff/apply.hpp"
#include "../../core/config.hpp"
#include "../../core/cost.hpp"
#include "../../core/shape_algebra.hpp"

namespace gradus {

namespace detail {

/// Shapes of a product: leading axes are batches; a right operand without them is shared by all batches.
template <class A, class B, bool TransposeA, bool TransposeB>
struct matmul_rule {
  static constexpr index_t m = A::extent_in_type(TransposeA ? -1 : -2);
  static constexpr index_t k = A::extent_in_type(TransposeA ? -2 : -1);
  static constexpr index_t k_right = B::extent_in_type(TransposeB ? -1 : -2);
  static constexpr index_t n = B::extent_in_type(TransposeB ? -2 : -1);
  static constexpr bool shared = B::rank == 2;  ///< one right matrix for all batches
  using batch_a = leading_shape<A, A::rank - 2>;
  using batch_b = leading_shape<B, B::rank - 2>;
  static constexpr bool batches_equal = shared || std::is_same_v<batch_a, batch_b>;
  using output = joined_shape<batch_a, shape<m, n>>;
};

/// The sizes of one product, by the extents of its operands.
struct matmul_sizes {
  index_t batch, m, n, k;
};
template <bool TransposeA, bool TransposeB, class A, class B>
constexpr matmul_sizes matmul_sizes_of(const A& a, const B& b) {
  const index_t m = a.extent(TransposeA ? -1 : -2), k = a.extent(TransposeA ? -2 : -1);
  return {a.size / (m * k), m, b.extent(TransposeB ? -2 : -1), k};
}

template <index_t ColumnsOfA, index_t RowsOfB>
inline constexpr bool columns_equal_rows = ColumnsOfA == RowsOfB;
template <index_t ColumnsOfX, index_t RowsOfW>
inline constexpr bool columns_of_x_equal_rows_of_w = ColumnsOfX == RowsOfW;
template <index_t ColumnsOfW, index_t LengthOfB>
inline constexpr bool columns_of_w_equal_length_of_b = ColumnsOfW == LengthOfB;

}  // namespace detail

/// Which operands of a matrix product are transposed (their last two axes exchanged).
struct transpose {
  bool a = false;
  bool b = false;
};

namespace op::inline GRADUS_BUILD {

/// The family of all matrix products, for checkpoint policies.
struct matmul {
  static constexpr std::string_view name = "matmul";
};

/// C = op(A) op(B), batched over leading axes. Gradients: dA = dC op(B)^T, dB = op(A)^T dC.
template <bool TransposeA, bool TransposeB>
struct matrix_product {
  using family = matmul;
  static constexpr std::string_view name = "matmul";
  static constexpr op_precision precision = op_precision::low;
  static constexpr unsigned rounds_operands =
      TransposeA ? 0 : 0b10;  // b is then the right operand in a's gradient, too
  static constexpr save_rule saves = save_factors();

  template <class A, class B>
  using rule = gradus::detail::matmul_rule<typename A::shape, typename B::shape, TransposeA, TransposeB>;
  template <class A, class B>
  static constexpr flop_counts flops() {
    constexpr auto r =
        gradus::detail::matmul_sizes_of<TransposeA, TransposeB>(typename A::shape{}, typename B::shape{});
    return {2 * r.batch * r.m * r.n * r.k, 4 * r.batch * r.m * r.n * r.k};
  }

  template <class Call, class A, class B>
  constexpr auto forward(Call how, const A& a, const B& b) const {
    auto& ctx = how.owner();
    with_shape<A, typename rule<A, B>::output> c(ctx, output_extents(a, b));
    kernel<matrix_product, typename A::device>::forward(accumulate_in<typename Call::products>{}, ctx, c.view(),
                                                        a.view(), b.view());
    return c;
  }
  template <class Saved, class C, class A, class B>
  constexpr void backward(const Saved& saved, C dc, const gradient_sink<A>& da, const gradient_sink<B>& db) const {
    auto& ctx = dc.owner();
    using on_device = kernel<matrix_product, typename C::device>;
    constexpr accumulate_in<typename Saved::products> in{};
    if (da) {
      auto to = da.open(ctx);
      on_device::backward(gradient_of<0>{}, in, ctx, to.view(), to.accumulate, std::as_const(dc).view(),
                          input<1>(saved).view());
    }
    if (db) {
      auto to = db.open(ctx);
      const auto write = [&](auto target, bool accumulate) {
        on_device::backward(gradient_of<1>{}, in, ctx, target, accumulate, std::as_const(dc).view(),
                            input<0>(saved).view());
      };
      if constexpr (sums_over_batches<A, B> && is_rounded<typename B::value_type>) {
        tensor<compute_type<typename B::value_type>, typename B::shape, typename B::device> sum(ctx, db.extents(),
                                                                                                category::temporary);
        write(sum.view(), false);
        kernel<convert, typename B::device>::forward(ctx, to.tensor.data(), std::as_const(sum).data(),
                                                     sum.extents().size, to.accumulate);
      } else {
        write(to.view(), to.accumulate);
      }
    }
  }

 private:
  // Whether b's gradient is a sum of one product per batch, which is rounded once; otherwise it is a single product.
  template <class A, class B>
  static constexpr bool sums_over_batches = TransposeA && rule<A, B>::shared && rule<A, B>::batch_a::size > 1;

  template <class A, class B>
  static constexpr auto output_extents(const A& a, const B& b) {
    using output = typename rule<A, B>::output;
    const auto r = gradus::detail::matmul_sizes_of<TransposeA, TransposeB>(a.extents(), b.extents());
    check_extents_meet(name, A::rank - (TransposeA ? 2 : 1), r.k, b.extent(TransposeB ? -1 : -2));
    if constexpr (!rule<A, B>::shared)
      for (index_t i = 0; i + 2 < A::rank; ++i)
        check_extents_meet(name, i, a.extents().extents[i], b.extents().extents[i]);
    return extents_from<output>([&] {
      auto all = output::extents;
      for (index_t i = 0; i + 2 < A::rank; ++i) all[i] = a.extents().extents[i];
      all[A::rank - 2] = r.m;
      all[A::rank - 1] = r.n;
      return all;
    });
  }
};

/// y = x w + b for w [in, out]. Gradients: dx = dy w^T, dw = x^T dy, db = column sums of dy. Does not cast the bias,
/// but cuBLASLt takes one of the result's type only.
struct linear {
  using family = matmul;
  static constexpr std::string_view name = "linear";
  static constexpr op_precision precision = op_precision::low;
  static constexpr unsigned cast_operands = 0b011;
  static constexpr unsigned rounds_operands = 0b010;
  static constexpr unsigned copied_operands = 0b100;
  static constexpr save_rule saves = save_factors();

  template <class X, class W, class B>
  static constexpr flop_counts flops() {
    constexpr index_t forward = 2 * X::size * W::shape::extent(1) + rows_of<typename X::shape> * B::size;
    return {forward, 2 * forward};
  }

  template <class Call, class X, class W, class B>
  constexpr auto forward(Call how, const X& x, const W& w, const B& b) const {
    auto& ctx = how.owner();
    constexpr index_t columns = B::shape::extent_in_type(0);
    check_extents_meet(name, X::rank - 1, x.extent(-1), w.extent(0));
    check_extents_meet(name, 1, w.extent(1), b.extent(0));
    with_shape<X, with_extent<typename X::shape, X::rank - 1, columns>> y(
        ctx, replaced_extents<X::rank - 1, columns>(x.extents(), b.extent(0)));
    kernel<linear, typename X::device>::forward(accumulate_in<typename Call::products>{}, ctx, y.view(), x.view(),
                                                w.view(), b.view());
    return y;
  }
  template <class Saved, class Y, class X, class W, class B>
  constexpr void backward(const Saved& saved, Y dy, const gradient_sink<X>& dx, const gradient_sink<W>& dw,
                          const gradient_sink<B>& db) const {
    auto& ctx = dy.owner();
    using on_device = kernel<linear, typename Y::device>;
    constexpr accumulate_in<typename Saved::products> in{};
    const Y& grad = dy;
    if (dw && db) {
      auto to_w = dw.open(ctx);
      auto to_b = db.open(ctx);
      on_device::backward(gradient_of<1, 2>{}, in, ctx, to_w.view(), to_w.accumulate, to_b.view(), to_b.accumulate,
                          grad.view(), input<0>(saved).view());
    } else if (dw) {
      auto to = dw.open(ctx);
      on_device::backward(gradient_of<1>{}, in, ctx, to.view(), to.accumulate, grad.view(), input<0>(saved).view());
    } else if (db) {
      auto to = db.open(ctx);
      on_device::backward(gradient_of<2>{}, in, ctx, to.view(), to.accumulate, grad.view());
    }
    if (dx) {
      auto to = dx.open(ctx);
      on_device::backward(gradient_of<0>{}, in, ctx, to.view(), to.accumulate, grad.view(), input<1>(saved).view());
    }
  }
};

}  // namespace op::inline GRADUS_BUILD

/// Matrix product of the last two axes: [..., m, k] x [..., k, n] -> [..., m, n]; the leading axes are equal, or b has
/// none. `matmul<transpose{.b = true}>(a, b)` takes b as [..., n, k], without a copy.
template <transpose Which = transpose{}, operand A, operand B>
GRADUS_OF_BUILD constexpr auto matmul(A&& a, B&& b) {
  using sa = shape_of<A>;
  using sb = shape_of<B>;
  using rule = detail::matmul_rule<sa, sb, Which.a, Which.b>;
  GRADUS_REQUIRE("matmul(a, b): a and b need at least two axes", sa::rank >= 2 && sb::rank >= 2)
  GRADUS_REQUIRE("matmul(a, b): columns of a must equal rows of b", detail::columns_equal_rows<rule::k, rule::k_right>)
  GRADUS_REQUIRE("matmul(a, b): the leading axes of a and b must be equal, or b must be one matrix",
                 rule::batches_equal)
  return apply(op::matrix_product<Which.a, Which.b>{}, std::forward<A>(a), std::forward<B>(b));
}

/// y = x w + b: x [..., in], w [in, out], b [out] -> [..., out].
template <operand X, operand W, operand B>
GRADUS_OF_BUILD constexpr auto linear(X&& x, W&& w, B&& b) {
  using sx = shape_of<X>;
  using sw = shape_of<W>;
  using sb = shape_of<B>;
  GRADUS_REQUIRE("linear(x, w, b): w must have two axes and b one", sx::rank >= 1 && sw::rank == 2 && sb::rank == 1)
  GRADUS_REQUIRE("linear(x, w, b): columns of x must equal rows of w",
                 detail::columns_of_x_equal_rows_of_w<sx::extent_in_type(-1), sw::extent_in_type(0)>)
  GRADUS_REQUIRE("linear(x, w, b): columns of w must equal the length of b",
                 detail::columns_of_w_equal_length_of_b<sw::extent_in_type(1), sb::extent_in_type(0)>)
  return apply(op::linear{}, std::forward<X>(x), std::forward<W>(w), std::forward<B>(b));
}

/// y = x w, without a bias: x [..., in], w [in, out] -> [..., out].
template <operand X, operand W>
GRADUS_OF_BUILD constexpr auto linear(X&& x, W&& w) {
  using sx = shape_of<X>;
  using sw = shape_of<W>;
  GRADUS_REQUIRE("linear(x, w): w must have two axes, x at least two", sx::rank >= 2 && sw::rank == 2)
  GRADUS_REQUIRE("linear(x, w): columns of x must equal rows of w",
                 detail::columns_of_x_equal_rows_of_w<sx::extent_in_type(-1), sw::extent_in_type(0)>)
  return matmul(std::forward<X>(x), std::forward<W>(w));
}

}  // namespace gradus
