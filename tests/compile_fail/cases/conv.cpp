#include <gradus/gradus.hpp>

namespace gr = gradus;
template <gr::index_t... Extents>
using tensor = gr::tensor<float, gr::shape<Extents...>>;

// case: conv_bias
// expect: conv<options>\(x, w, b\): the length of b must equal the filters, the first extent of w
// expect(g++): bias_has_one_value_per_filter<3(UL)?, 16(UL)?>
auto f(const tensor<8, 3, 32, 32>& x, const tensor<16, 3, 3, 3>& w, const tensor<3>& b) { return gr::conv2d(x, w, b); }
// twin
auto f(const tensor<8, 3, 32, 32>& x, const tensor<16, 3, 3, 3>& w, const tensor<16>& b) { return gr::conv2d(x, w, b); }

// case: conv_channels
// expect: conv<options>\(x, w\): channels of x must equal the second extent of w times groups
// expect(g++): channels_of_x_are_those_of_the_filters<4(UL)?, 3(UL)?>
auto f(const tensor<8, 4, 32, 32>& x, const tensor<16, 3, 3, 3>& w) { return gr::conv2d(x, w); }
// twin
auto f(const tensor<8, 3, 32, 32>& x, const tensor<16, 3, 3, 3>& w) { return gr::conv2d(x, w); }

// case: conv_groups
// expect: conv<options>\(x, w\): groups must divide the filters, the first extent of w
// expect(g++): groups_divide<4(UL)?, 6(UL)?>
auto f(const tensor<8, 4, 32, 32>& x, const tensor<6, 1, 3, 3>& w) { return gr::conv2d<gr::conv{.groups = 4}>(x, w); }
// twin
auto f(const tensor<8, 4, 32, 32>& x, const tensor<8, 1, 3, 3>& w) { return gr::conv2d<gr::conv{.groups = 4}>(x, w); }

// case: conv_kernel
// expect: conv<options>\(x, w\): the kernel must not be wider than the padded image
// expect(g++): kernel_is_within_the_image<9(UL)?, 8(UL)?>
auto f(const tensor<8, 3, 6>& x, const tensor<5, 3, 3>& w) {
  return gr::conv1d<gr::conv{.padding = 1, .dilation = 4}>(x, w);
}
// twin
auto f(const tensor<8, 3, 6>& x, const tensor<5, 3, 3>& w) {
  return gr::conv1d<gr::conv{.padding = 1, .dilation = 3}>(x, w);
}

// case: conv_of_bounded_images
// expect: conv<options>\(x, w\): only the batch may be upto<N>
// expect: only_the_batch_is_bounded<
auto f(const tensor<8, 3, gr::upto<32>, 32>& x, const tensor<16, 3, 3, 3>& w) { return gr::conv2d(x, w); }
// twin
auto f(const tensor<gr::upto<8>, 3, 32, 32>& x, const tensor<16, 3, 3, 3>& w) { return gr::conv2d(x, w); }

// case: conv_transpose_output_padding
// expect: conv_transpose2d<options>\(x, w\): output_padding must be less than the stride or the dilation
// expect(g++): output_padding_is_less_than_stride_or_dilation<2(UL)?, 2(UL)?, 1(UL)?>
auto f(const tensor<8, 3, 6, 6>& x, const tensor<3, 5, 3, 3>& w) {
  return gr::conv_transpose2d<gr::conv_transpose{.stride = 2, .output_padding = 2}>(x, w);
}
// twin
auto f(const tensor<8, 3, 6, 6>& x, const tensor<3, 5, 3, 3>& w) {
  return gr::conv_transpose2d<gr::conv_transpose{.stride = 2, .output_padding = 1}>(x, w);
}

// case: interpolate_bounded
// expect: interpolate<H, W>\(x\): only B and C of x may be bounded
auto f(const tensor<2, 3, 4, gr::upto<5>>& x) { return gr::interpolate<8, 10>(x); }
// twin
auto f(const tensor<gr::upto<2>, gr::upto<3>, 4, 5>& x) { return gr::interpolate<8, 10>(x); }

// case: interpolate_rank
// expect: interpolate<H, W>\(x\): x must be images \[B, C, h, w\]
auto f(const tensor<3, 4, 5>& x) { return gr::interpolate<8, 10>(x); }
// twin
auto f(const tensor<2, 3, 4, 5>& x) { return gr::interpolate<8, 10>(x); }

// case: nn_conv_groups
// expect: nn::conv1d, conv2d, conv_transpose2d: groups must divide the channels, In and Out
// expect: groups_divide_channels<4(UL)?, 6(UL)?>
gr::nn::conv2d<gr::on<gr::cpu>, 6, 8, 3, gr::conv{.groups = 4}> layer;
// twin
gr::nn::conv2d<gr::on<gr::cpu>, 6, 8, 3, gr::conv{.groups = 2}> layer;
