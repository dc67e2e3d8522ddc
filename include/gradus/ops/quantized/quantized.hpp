#pragma once
// Linear layers whose weight is stored in 8 bits: the operation, its gradient, and what the kernels are.

#include <string_view>
#include <utility>

#include "../matmul/matmul.hpp"

namespace gradus {

/// Adjacent elements of a row that share a scale.
inline constexpr index_t quantized_block = 64;

namespace op::inline GRADUS_BUILD {

/// Codes and scales of blocks of quantized_block elements. The scale is a 127th of the block's largest magnitude, the
/// codes are the elements by the scale, rounded to nearest: int8, whose bits are in tensors of uint8.
struct quantize {};
/// The elements of such blocks: code times scale, rounded once.
struct dequantize {};

/// y = x w + b, or without b, for a constant w [in, out] in 8 bits: `codes` [in, out] and `scales` [in, out / block].
/// Forward and backward have w in x's type while they run. Gradients: dx = dy w^T, db = column sums of dy.
/// @tparam Products type of the product, or a format such as tf32_products
template <class Products>
struct quantized_linear {
  using family = matmul;
  static constexpr std::string_view name = "linear";
  static constexpr save_rule saves = save_inputs(1, 2);

  template <class X, class Codes, class Scales, class... B>
  static constexpr flop_counts flops() {
    constexpr index_t product = 2 * X::size * Codes::shape::extent(1) + Codes::size;
    constexpr index_t added = rows_of<typename X::shape> * (B::size + ... + 0);
    return {product + added, product + added};
  }

  template <class Call, class X, class Codes, class Scales, class... B>
  constexpr auto forward(Call how, const X& x, const Codes& codes, const Scales& scales, const B&... b) const {
    using D = typename X::device;
    auto& ctx = how.owner();
    constexpr index_t columns = Codes::shape::extent_in_type(1);
    check_extents_meet(name, X::rank - 1, x.extent(-1), codes.extent(0));
    with_shape<X, with_extent<typename X::shape, X::rank - 1, columns>> y(
        ctx, replaced_extents<X::rank - 1, columns>(x.extents(), columns));
    const auto w = weight<X>(ctx, codes, scales);
    if constexpr (sizeof...(B) > 0)
      kernel<linear, D>::forward(accumulate_in<Products>{}, ctx, y.view(), x.view(), w.view(), b.view()...);
    else kernel<matrix_product<false, false>, D>::forward(accumulate_in<Products>{}, ctx, y.view(), x.view(), w.view());
    return y;
  }
  template <class Saved, class Y, class X, class Codes, class Scales, class... B>
  constexpr void backward(const Saved& saved, Y dy, const gradient_sink<X>& dx, const Codes&, const Scales&,
                          const gradient_sink<B>&... db) const {
    auto& ctx = dy.owner();
    using on_device = kernel<linear, typename Y::device>;
    constexpr accumulate_in<Products> in{};
    const Y& grad = dy;
    [[maybe_unused]] const auto sum_columns = [&](const auto& sink) {
      auto to = sink.open(ctx);
      on_device::backward(gradient_of<2>{}, in, ctx, to.view(), to.accumulate, grad.view());
    };
    ((db ? sum_columns(db) : void()), ...);
    if (!dx) return;
    auto to = dx.open(ctx);
    const auto w = weight<Y>(ctx, input<1>(saved), input<2>(saved));
    on_device::backward(gradient_of<0>{}, in, ctx, to.view(), to.accumulate, grad.view(), w.view());
  }

 private:
  template <class Like, class D, class Codes, class Scales>
  static constexpr auto weight(context<D>& ctx, const Codes& codes, const Scales& scales) {
    with_shape<Like, typename Codes::shape> w(ctx, category::temporary);
    kernel<dequantize, D>::forward(ctx, w.data(), codes.data(), scales.data(), Codes::size);
    return w;
  }
};

}  // namespace op::inline GRADUS_BUILD

}  // namespace gradus
