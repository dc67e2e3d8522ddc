#pragma once
// Transposed convolutions: the gradient of a convolution for its images, as a function. conv.hpp has the operation.

#include <utility>

#include "../../autodiff/apply.hpp"
#include "../../core/config.hpp"
#include "conv.hpp"
#include "options.hpp"

namespace gradus {

namespace detail {
template <index_t OutputPadding, index_t Stride, index_t Dilation>
inline constexpr bool output_padding_is_less_than_stride_or_dilation =
    OutputPadding < Stride || OutputPadding < Dilation;
template <index_t Extent>
inline constexpr bool padding_leaves_something = Extent > 0;
template <index_t ChannelsOfX, index_t FirstExtentOfW>
inline constexpr bool channels_of_x_are_the_first_extent_of_w = ChannelsOfX == FirstExtentOfW;

// Checks the shapes of a transposed convolution, and applies it.
template <conv_transpose Options, class X, class W, class... B>
GRADUS_OF_BUILD constexpr auto convolve_transposed(X&& x, W&& w, B&&... b) {
  using sx = shape_of<X>;
  using sw = shape_of<W>;
  constexpr conv_transpose o = Options;
  constexpr conv_sizes s = conv_sizes_of<Options>(sx{}, sw{});
  GRADUS_REQUIRE("conv_transpose2d<options>(x, w): only the batch may be upto<N>",
                 only_the_batch_is_bounded<sx> && !sw::bounded)
  GRADUS_REQUIRE("conv_transpose2d<options>(x, w): stride and dilation must be at least 1",
                 are_at_least_1<o.stride.y, o.stride.x, o.dilation.y, o.dilation.x>)
  GRADUS_REQUIRE("conv_transpose2d<options>(x, w): channels of x must equal the first extent of w",
                 channels_of_x_are_the_first_extent_of_w<sx::extent(1), sw::extent(0)>)
  GRADUS_REQUIRE("conv_transpose2d<options>(x, w): groups must divide the channels of x",
                 groups_divide<o.groups, sx::extent(1)>)
  GRADUS_REQUIRE("conv_transpose2d<options>(x, w): output_padding must be less than the stride or the dilation",
                 output_padding_is_less_than_stride_or_dilation<o.output_padding.y, o.stride.y, o.dilation.y> &&
                     output_padding_is_less_than_stride_or_dilation<o.output_padding.x, o.stride.x, o.dilation.x>)
  GRADUS_REQUIRE("conv_transpose2d<options>(x, w): the padding cuts off the whole result",
                 padding_leaves_something<s.y.in> && padding_leaves_something<s.x.in>)
  GRADUS_REQUIRE("conv_transpose2d<options>(x, w, b): the length of b must equal the second extent of w times groups",
                 bias_has_one_value_per_filter<length_or<shape_of<B>::size..., s.channels>, s.channels>)
  return apply(op::conv<Options>{}, std::forward<X>(x), std::forward<W>(w), std::forward<B>(b)...);
}

}  // namespace detail

/// Transposed convolution of images x [B, I, H, W] with weights w [I, O / groups, KH, KW], without a bias: [B, O, Ho,
/// Wo], where Ho = (H - 1) stride - 2 padding + dilation (KH - 1) + output_padding + 1, and likewise Wo. It is the
/// gradient of conv2d for its images. `conv_transpose2d<conv_transpose{.stride = 2}>(x, w)`. B may be upto<N>.
template <conv_transpose Options = conv_transpose{}, operand X, operand W>
GRADUS_OF_BUILD constexpr auto conv_transpose2d(X&& x, W&& w) {
  GRADUS_REQUIRE("conv_transpose2d(x, w): x and w must have four axes each",
                 shape_of<X>::rank == 4 && shape_of<W>::rank == 4)
  return detail::convolve_transposed<Options>(std::forward<X>(x), std::forward<W>(w));
}
/// Transposed convolution with a bias b [O]: conv_transpose2d(x, w) + b for each channel of the result.
template <conv_transpose Options = conv_transpose{}, operand X, operand W, operand B>
GRADUS_OF_BUILD constexpr auto conv_transpose2d(X&& x, W&& w, B&& b) {
  GRADUS_REQUIRE("conv_transpose2d(x, w, b): x and w must have four axes each, and b one",
                 shape_of<X>::rank == 4 && shape_of<W>::rank == 4 && shape_of<B>::rank == 1)
  return detail::convolve_transposed<Options>(std::forward<X>(x), std::forward<W>(w), std::forward<B>(b));
}

}  // namespace gradus
