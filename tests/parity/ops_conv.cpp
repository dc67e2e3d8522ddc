#include <doctest/doctest.h>

#include "ops.hpp"

namespace gr = gradus;
using namespace gradus_test;

namespace {
constexpr gr::conv all{.stride = {2, 3}, .padding = {3, 1}, .dilation = {2, 1}, .groups = 2};
constexpr gr::conv depthwise{.stride = 2, .padding = 1, .groups = 4};
constexpr gr::conv sequence{.stride = 2, .padding = 2, .dilation = 3, .groups = 3};
constexpr gr::conv_transpose all_transposed{
    .stride = {3, 2}, .padding = {1, 2}, .output_padding = {2, 1}, .dilation = {1, 3}, .groups = 2};
}  // namespace

TEST_CASE_TEMPLATE("convolutions have PyTorch's values and gradients", T, double, float) {
  check_case<T>(
      "conv2d", [](auto x, auto w, auto b) { return gr::conv2d(x, w, b); }, given<gr::shape<2, 3, 5, 7>>{"x"},
      given<gr::shape<4, 3, 3, 2>>{"w"}, given<gr::shape<4>>{"b"});
  check_case<T>(
      "conv2d_padded", [](auto x, auto w, auto b) { return gr::conv2d<gr::conv{.padding = 1}>(x, w, b); },
      given<gr::shape<2, 3, 4, 6>>{"x"}, given<gr::shape<5, 3, 3, 3>>{"w"}, given<gr::shape<5>>{"b"});
  check_case<T>(
      "conv2d_all", [](auto x, auto w, auto b) { return gr::conv2d<all>(x, w, b); }, given<gr::shape<2, 4, 7, 8>>{"x"},
      given<gr::shape<6, 2, 3, 2>>{"w"}, given<gr::shape<6>>{"b"});
  check_case<T>(
      "conv2d_depthwise", [](auto x, auto w) { return gr::conv2d<depthwise>(x, w); }, given<gr::shape<2, 4, 6, 5>>{"x"},
      given<gr::shape<8, 1, 3, 3>>{"w"});
  check_case<T>(
      "conv1d", [](auto x, auto w, auto b) { return gr::conv1d<sequence>(x, w, b); }, given<gr::shape<2, 6, 17>>{"x"},
      given<gr::shape<3, 2, 4>>{"w"}, given<gr::shape<3>>{"b"});
}

TEST_CASE_TEMPLATE("transposed convolutions have PyTorch's values and gradients", T, double, float) {
  check_case<T>(
      "conv_transpose2d", [](auto x, auto w, auto b) { return gr::conv_transpose2d(x, w, b); },
      given<gr::shape<2, 3, 4, 5>>{"x"}, given<gr::shape<3, 4, 2, 3>>{"w"}, given<gr::shape<4>>{"b"});
  check_case<T>(
      "conv_transpose2d_all", [](auto x, auto w, auto b) { return gr::conv_transpose2d<all_transposed>(x, w, b); },
      given<gr::shape<2, 4, 3, 4>>{"x"}, given<gr::shape<4, 3, 4, 2>>{"w"}, given<gr::shape<6>>{"b"});
}
