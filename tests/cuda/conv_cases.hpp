#pragma once
#include <gradus/ops/conv/conv.hpp>
#include <gradus/ops/conv/conv_transpose.hpp>

#include "cases.hpp"

template <class D>
void conv_cases(runner<D>& r) {
  const auto padded = [](auto x, auto w, auto b) { return gr::conv2d<gr::conv{.padding = 1}>(x, w, b); };
  const auto all = [](auto x, auto w, auto b) {
    return gr::conv2d<gr::conv{.stride = {2, 3}, .padding = {3, 1}, .dilation = {2, 1}, .groups = 2}>(x, w, b);
  };
  const auto strided = [](auto x, auto w) { return gr::conv2d<gr::conv{.stride = 2, .padding = {0, 2}}>(x, w); };
  const auto transposed = [](auto x, auto w, auto b) {
    return gr::conv_transpose2d<gr::conv_transpose{.stride = {3, 2}, .padding = 1, .output_padding = {1, 0}}>(x, w, b);
  };
  r.template differentiate<float, gr::shape<3, 5, 6, 7>, gr::shape<8, 5, 3, 3>, gr::shape<8>>("padded", padded);
  r.template differentiate<double, gr::shape<2, 3, 4, 5>, gr::shape<4, 3, 3, 3>, gr::shape<4>>("double", padded);
  r.template differentiate<gr::bf16, gr::shape<2, 8, 6, 4>, gr::shape<8, 8, 3, 3>, gr::shape<8>>("bf16", padded);
  r.template differentiate<float, gr::shape<2, 4, 7, 8>, gr::shape<6, 2, 3, 2>, gr::shape<6>>("all options", all);
  r.template differentiate<float, gr::shape<2, 3, 7, 6>, gr::shape<4, 3, 3, 2>>("strided", strided);
  r.template differentiate<float, gr::shape<2, 3, 7, 6>, gr::shape<4, 3, 1, 1>>("one element", strided);
  r.template differentiate<float, gr::shape<2, 3, 4, 5>, gr::shape<3, 4, 2, 3>, gr::shape<4>>("transposed", transposed);
  const auto plain = [](auto x, auto w) { return gr::conv2d(x, w); };
  const auto biased = [](auto x, auto w, auto b) { return gr::conv2d(x, w, b); };
  const auto twice = [&](auto x, auto w, auto b) { return biased(biased(x, w, b), w, b); };
  const auto plain_transposed = [](auto x, auto w, auto b) { return gr::conv_transpose2d(x, w, b); };
  r.template differentiate<float, gr::shape<3, 5, 4, 7>, gr::shape<8, 5, 1, 1>>("1 x 1", plain);
  r.template differentiate<float, gr::shape<3, 5, 4, 7>, gr::shape<5, 5, 1, 1>, gr::shape<5>>("1 x 1, twice", twice);
  r.template differentiate<gr::bf16, gr::shape<3, 16, 4, 4>, gr::shape<8, 16, 1, 1>, gr::shape<8>>("1 x 1, bf16",
                                                                                                   biased);
  r.template differentiate<double, gr::shape<2, 3, 3, 3>, gr::shape<4, 3, 1, 1>, gr::shape<4>>("1 x 1, double", biased);
  r.template differentiate<float, gr::shape<3, 5, 3, 5>, gr::shape<8, 5, 1, 1>>("1 x 1 of odd images", plain);
  r.template differentiate<float, gr::shape<3, 8, 1, 2>, gr::shape<8, 8, 1, 1>>("1 x 1 of small images", plain);
  r.template differentiate<float, gr::shape<3, 5, 2, 3>, gr::shape<5, 4, 1, 1>, gr::shape<4>>("1 x 1, transposed",
                                                                                              plain_transposed);

  const auto by_channel = [](auto x, auto w, auto b) {
    constexpr gr::index_t groups = gr::shape_of<decltype(x)>::extent(1);
    return gr::conv2d<gr::conv{.padding = {1, 2}, .groups = groups}>(x, w, b);
  };
  const auto grouped = [](auto x, auto w) { return gr::conv2d<gr::conv{.padding = 1, .groups = 2}>(x, w); };
  const auto grouped_apart = [](auto x, auto w) {
    return gr::conv2d<gr::conv{.stride = {2, 1}, .padding = 2, .dilation = {1, 2}, .groups = 2}>(x, w);
  };
  const auto grouped_transposed = [](auto x, auto w, auto b) {
    return gr::conv_transpose2d<gr::conv_transpose{.padding = 1, .groups = 2}>(x, w, b);
  };
  using whole = gr::shape<2, 3, 5, 6>;  // results of 8 columns, and of 7, 5 and 9 below
  r.template differentiate<float, whole, gr::shape<6, 1, 3, 3>, gr::shape<6>>("by channel", by_channel);
  r.template differentiate<gr::bf16, whole, gr::shape<3, 1, 3, 3>, gr::shape<3>>("by channel, bf16", by_channel);
  r.template differentiate<float, whole, gr::shape<3, 1, 2, 4>, gr::shape<3>>("by channel, 2 x 4", by_channel);
  r.template differentiate<float, gr::shape<3, 4, 6, 5>, gr::shape<6, 2, 3, 3>>("groups of 3 x 3", grouped);
  r.template differentiate<double, gr::shape<2, 4, 3, 9>, gr::shape<2, 2, 3, 3>>("groups, double", grouped);
  r.template differentiate<float, gr::shape<2, 6, 7, 9>, gr::shape<4, 3, 3, 3>>("groups, 3 x 3 apart", grouped_apart);
  r.template differentiate<float, gr::shape<2, 4, 5, 6>, gr::shape<4, 3, 3, 3>, gr::shape<6>>("groups, transposed",
                                                                                              grouped_transposed);
  // Several parts of the sums for a filter.
  r.template differentiate<float, gr::shape<3, 2, 37, 41>, gr::shape<2, 1, 3, 3>>("groups of large images", grouped);
  // The gradients of the second add to those of the first.
  r.template differentiate<float, gr::shape<2, 4, 5, 5>, gr::shape<4, 4, 3, 3>, gr::shape<4>>(
      "twice", [&](auto x, auto w, auto b) { return padded(padded(x, w, b), w, b); });
  r.template differentiate<float, gr::shape<2, 4, 9>, gr::shape<4, 2, 3>>(
      "conv1d", [](auto x, auto w) { return gr::conv1d<gr::conv{.stride = 2, .padding = 1, .groups = 2}>(x, w); });
}

// Computed in the .cpp file.
std::vector<record> conv_on_cpu(unsigned seed);
