#pragma once
// Transposed convolutions: the gradient of a convolution with respect to its images, as an operation.

#include <string_view>
#include <type_traits>
#include <utility>

#include "../../autodiff/apply.hpp"
#include "../../core/config.hpp"
#include "../../core/cost.hpp"
#include "../../core/shape_algebra.hpp"
#include "conv.hpp"
#include "options.hpp"

namespace gradus {

namespace detail {
template <class X, class W, conv_transpose Options>
struct conv_transpose_rule {
  static constexpr conv_sizes sizes = conv_transpose_sizes_of<Options>(X{}, W{});
  using output = shape<X::extent_in_type(0), sizes.channels, sizes.y.in, sizes.x.in>;
};
template <index_t OutputPadding, index_t Stride, index_t Dilation>
inline constexpr bool output_padding_is_less_than_stride_or_dilation =
    OutputPadding < Stride || OutputPadding < Dilation;
template <index_t Extent>
inline constexpr bool padding_leaves_something = Extent > 0;
template <index_t ChannelsOfX, index_t FirstExtentOfW>
inline constexpr bool channels_of_x_are_the_first_extent_of_w = ChannelsOfX == FirstExtentOfW;
}  // namespace detail

namespace op::inline GRADUS_BUILD {

/// y = the gradient of conv(y, w) for x as the gradient of its result, plus a bias: x [B, I, H, W], w [I, O / groups,
/// KH, KW]. So its gradient for x is that convolution of dy, and its gradient for w that of the convolution.
template <gradus::conv_transpose Options>
struct conv_transpose {
  using family = convolution;
  static constexpr std::string_view name = "conv_transpose";
  static constexpr op_precision precision = op_precision::low;
  static constexpr unsigned cast_operands = 0b011;
  static constexpr unsigned rounds_operands = 0b010;
  static constexpr unsigned copied_operands = 0b100;
  static constexpr save_rule saves = save_inputs(0, 1);

  template <class X, class W>
  using rule = gradus::detail::conv_transpose_rule<typename X::shape, typename W::shape, Options>;
  template <class X, class W, class... B>
  static constexpr cost forward_cost() {
    constexpr index_t y = rule<X, W>::output::size;
    return {2 * X::shape::extent(0) * rule<X, W>::sizes.products() + sizeof...(B) * y,
            X::bytes + W::bytes + (index_t{0} + ... + B::bytes), y * sizeof(typename X::value_type)};
  }
  template <class X, class W, class... B>
  static constexpr cost backward_cost() {
    return forward_cost<X, W, B...>() + forward_cost<X, W, B...>();
  }

  template <class Call, class X, class W, class... B>
  constexpr auto forward(Call how, const X& x, const W& w, const B&... b) const {
    auto& ctx = how.owner();
    using output = typename rule<X, W>::output;
    with_shape<X, output> y(ctx, gradus::detail::with_batch_of<output>(x.extents()));
    using products = typename Call::products;
    using D = typename X::device;
    constexpr index_t turned =
        gradus::detail::turned_elements<D, products, typename X::value_type, typename W::value_type>(rule<X, W>::sizes,
                                                                                                     true);
    gradus::detail::with_memory_for<typename X::value_type, turned>(ctx, [&](auto* room) {
      kernel<convolution, D>::backward(gradient_of<0>{}, accumulate_in<products>{}, ctx, sizes(x, w), y.data(), false,
                                       x.data(), w.data(), room, b.data()...);
    });
    return y;
  }
  template <class Saved, class Y, class X, class W, class... B>
  constexpr void backward(const Saved& saved, Y dy, const gradient_sink<X>& dx, const gradient_sink<W>& dw,
                          const gradient_sink<B>&... db) const {
    auto& ctx = dy.owner();
    using on_device = kernel<convolution, typename Y::device>;
    constexpr accumulate_in<typename Saved::products> in{};
    const Y& grad = dy;
    const auto of = sizes(dx, dw);
    if (dw) {
      auto to = dw.open(ctx);
      constexpr index_t sums =
          gradus::detail::winograd_sums<typename Y::device, typename Saved::products, typename X::value_type,
                                        typename Y::value_type>(rule<X, W>::sizes);
      gradus::detail::with_memory_for<float, sums>(ctx, [&](auto* room) {
        on_device::backward(gradient_of<1>{}, in, ctx, of, to.tensor.data(), to.accumulate, input<0>(saved).data(),
                            grad.data(), room);
      });
    }
    (gradus::detail::add_bias_gradient(db, grad), ...);
    if (dx) {
      auto to = dx.open(ctx);
      using stored_w = std::remove_cvref_t<decltype(input<1>(saved))>;
      constexpr index_t turned =
          gradus::detail::turned_elements<typename Y::device, typename Saved::products, typename Y::value_type,
                                          typename stored_w::value_type>(rule<X, W>::sizes, false);
      gradus::detail::with_memory_for<typename Y::value_type, turned>(ctx, [&](auto* room) {
        on_device::forward(in, ctx, of, to.tensor.data(), to.accumulate, grad.data(), input<1>(saved).data(), room);
      });
    }
  }

 private:
  static constexpr gradus::detail::conv_sizes sizes(const auto& x, const auto& w) {
    return gradus::detail::conv_transpose_sizes_of<Options>(x.extents(), w.extents());
  }
};

}  // namespace op::inline GRADUS_BUILD

namespace detail {

// Checks the shapes of a transposed convolution, and applies it.
template <conv_transpose Options, class X, class W, class... B>
GRADUS_OF_BUILD constexpr auto convolve_transposed(X&& x, W&& w, B&&... b) {
  using sx = shape_of<X>;
  using sw = shape_of<W>;
  constexpr conv_transpose o = Options;
  static_assert(only_the_batch_is_bounded<sx> && !sw::bounded,
                "conv_transpose2d<options>(x, w): only the batch may be upto<N>");
  static_assert(are_at_least_1<o.stride.y, o.stride.x, o.dilation.y, o.dilation.x>,
                "conv_transpose2d<options>(x, w): stride and dilation must be at least 1");
  static_assert(channels_of_x_are_the_first_extent_of_w<sx::extent(1), sw::extent(0)>,
                "conv_transpose2d<options>(x, w): channels of x must equal the first extent of w");
  static_assert(groups_divide<o.groups, sx::extent(1)>,
                "conv_transpose2d<options>(x, w): groups must divide the channels of x");
  static_assert(output_padding_is_less_than_stride_or_dilation<o.output_padding.y, o.stride.y, o.dilation.y> &&
                    output_padding_is_less_than_stride_or_dilation<o.output_padding.x, o.stride.x, o.dilation.x>,
                "conv_transpose2d<options>(x, w): output_padding must be less than the stride or the dilation");
  constexpr conv_sizes s = conv_transpose_sizes_of<Options>(sx{}, sw{});
  static_assert(padding_leaves_something<s.y.in> && padding_leaves_something<s.x.in>,
                "conv_transpose2d<options>(x, w): the padding cuts off the whole result");
  constexpr index_t length = length_or<shape_of<B>::size..., s.channels>;
  static_assert(bias_has_one_value_per_filter<length, s.channels>,
                "conv_transpose2d<options>(x, w, b): the length of b must equal the second extent of w times groups");
  if constexpr (only_the_batch_is_bounded<sx> && !sw::bounded && sx::extent(1) == sw::extent(0) &&
                groups_divide<o.groups, sx::extent(1)> && s.y.in > 0 && s.x.in > 0 && length == s.channels)
    return apply(op::conv_transpose<Options>{}, std::forward<X>(x), std::forward<W>(w), std::forward<B>(b)...);
}

}  // namespace detail

/// Transposed convolution of images x [B, I, H, W] with weights w [I, O / groups, KH, KW], without a bias: [B, O, Ho,
/// Wo], where Ho = (H - 1) stride - 2 padding + dilation (KH - 1) + output_padding + 1, and likewise Wo. It is the
/// gradient of conv2d for its images. `conv_transpose2d<conv_transpose{.stride = 2}>(x, w)`. B may be upto<N>.
template <conv_transpose Options = conv_transpose{}, operand X, operand W>
GRADUS_OF_BUILD constexpr auto conv_transpose2d(X&& x, W&& w) {
  static_assert(shape_of<X>::rank == 4 && shape_of<W>::rank == 4,
                "conv_transpose2d(x, w): x and w must have four axes each");
  if constexpr (shape_of<X>::rank == 4 && shape_of<W>::rank == 4)
    return detail::convolve_transposed<Options>(std::forward<X>(x), std::forward<W>(w));
}
/// The same with a bias b [O].
template <conv_transpose Options = conv_transpose{}, operand X, operand W, operand B>
GRADUS_OF_BUILD constexpr auto conv_transpose2d(X&& x, W&& w, B&& b) {
  static_assert(shape_of<X>::rank == 4 && shape_of<W>::rank == 4 && shape_of<B>::rank == 1,
                "conv_transpose2d(x, w, b): x and w must have four axes each, and b one");
  if constexpr (shape_of<X>::rank == 4 && shape_of<W>::rank == 4 && shape_of<B>::rank == 1)
    return detail::convolve_transposed<Options>(std::forward<X>(x), std::forward<W>(w), std::forward<B>(b));
}

}  // namespace gradus
