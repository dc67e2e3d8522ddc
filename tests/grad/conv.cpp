#include "check.hpp"

namespace gr = gradus;
using namespace gradus_test;

namespace {

template <gr::conv Options, class X, class W>
void check_conv2d() {
  workplace at;
  check_gradient(
      "conv2d", [](auto x, auto w, auto b) { return gr::conv2d<Options>(x, w, b); }, normal<double, X>(at.ctx),
      normal<double, W>(at.ctx), normal<double, gr::shape<W::extent(0)>>(at.ctx));
}
template <gr::conv Options, class X, class W>
void check_conv1d() {
  workplace at;
  check_gradient(
      "conv1d", [](auto x, auto w, auto b) { return gr::conv1d<Options>(x, w, b); }, normal<double, X>(at.ctx),
      normal<double, W>(at.ctx), normal<double, gr::shape<W::extent(0)>>(at.ctx));
}
template <gr::conv_transpose Options, class X, class W>
void check_conv_transpose2d() {
  workplace at;
  check_gradient(
      "conv_transpose2d", [](auto x, auto w, auto b) { return gr::conv_transpose2d<Options>(x, w, b); },
      normal<double, X>(at.ctx), normal<double, W>(at.ctx),
      normal<double, gr::shape<W::extent(1) * Options.groups>>(at.ctx));
}

}  // namespace

TEST_CASE("gradients of conv2d are right: stride, padding, dilation, groups, and more than a register of columns") {
  check_conv2d<gr::conv{}, gr::shape<1, 1, 1, 1>, gr::shape<1, 1, 1, 1>>();
  check_conv2d<gr::conv{}, gr::shape<2, 3, 4, 19>, gr::shape<4, 3, 3, 2>>();
  check_conv2d<gr::conv{.padding = 1}, gr::shape<2, 3, 5, 6>, gr::shape<4, 3, 3, 3>>();
  check_conv2d<gr::conv{.stride = 2, .padding = {0, 2}}, gr::shape<2, 2, 7, 6>, gr::shape<3, 2, 3, 2>>();
  check_conv2d<gr::conv{.stride = {3, 2}, .padding = 1, .dilation = {2, 1}}, gr::shape<2, 2, 7, 5>,
               gr::shape<3, 2, 2, 3>>();
  check_conv2d<gr::conv{.stride = 2, .padding = 2, .dilation = 2, .groups = 2}, gr::shape<2, 4, 6, 7>,
               gr::shape<6, 2, 3, 2>>();
  check_conv2d<gr::conv{.stride = 2}, gr::shape<2, 3, 4, 5>, gr::shape<2, 3, 1, 1>>();
}

TEST_CASE("gradients of depthwise convolutions are right") {
  check_conv2d<gr::conv{.padding = 1, .groups = 3}, gr::shape<2, 3, 4, 5>, gr::shape<3, 1, 3, 3>>();
  check_conv2d<gr::conv{.stride = 2, .padding = 1, .groups = 3}, gr::shape<2, 3, 5, 4>, gr::shape<6, 1, 3, 2>>();
}

TEST_CASE("gradients of conv1d are right") {
  check_conv1d<gr::conv{}, gr::shape<1, 1, 3>, gr::shape<1, 1, 3>>();
  check_conv1d<gr::conv{.stride = 2, .padding = 3, .dilation = 2, .groups = 2}, gr::shape<2, 4, 19>,
               gr::shape<4, 2, 3>>();
}

TEST_CASE("gradients of conv_transpose2d are right") {
  check_conv_transpose2d<gr::conv_transpose{}, gr::shape<1, 1, 1, 1>, gr::shape<1, 1, 1, 1>>();
  check_conv_transpose2d<gr::conv_transpose{.stride = 2, .padding = 1, .output_padding = {0, 1}}, gr::shape<2, 3, 4, 3>,
                         gr::shape<3, 2, 4, 3>>();
  check_conv_transpose2d<gr::conv_transpose{.stride = {3, 1}, .padding = 1, .dilation = 2, .groups = 2},
                         gr::shape<2, 4, 3, 4>, gr::shape<4, 3, 2, 3>>();
}
