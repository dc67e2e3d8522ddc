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
  // The gradients of the second add to those of the first.
  r.template differentiate<float, gr::shape<2, 4, 5, 5>, gr::shape<4, 4, 3, 3>, gr::shape<4>>(
      "twice", [&](auto x, auto w, auto b) { return padded(padded(x, w, b), w, b); });
  r.template differentiate<float, gr::shape<2, 4, 9>, gr::shape<4, 2, 3>>(
      "conv1d", [](auto x, auto w) { return gr::conv1d<gr::conv{.stride = 2, .padding = 1, .groups = 2}>(x, w); });
}

// Computed in the .cpp file.
std::vector<record> conv_on_cpu(unsigned seed);
