// The table of operations on rows: softmax, logsumexp, norms.
#pragma once

#include <gradus/ops/layer_norm/layer_norm.hpp>
#include <gradus/ops/logsumexp/logsumexp.hpp>
#include <gradus/ops/rms_norm/rms_norm.hpp>
#include <gradus/ops/softmax/softmax.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "drawn.hpp"

namespace gradus_test {

namespace reference {

/// log(sum(e^x)) of each row.
inline values logsumexp(std::size_t columns, const values& x) {
  values y;
  for (std::size_t row = 0; row < x.size(); row += columns) {
    double top = x[row], sum = 0;
    for (std::size_t i = 0; i < columns; ++i) top = std::max(top, x[row + i]);
    for (std::size_t i = 0; i < columns; ++i) sum += std::exp(x[row + i] - top);
    y.push_back(top + std::log(sum));
  }
  return y;
}
inline values log_softmax(std::size_t columns, values x) {
  const values sums = logsumexp(columns, x);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] -= sums[i / columns];
  return x;
}
/// layer_norm of x, w, b; rms_norm of x, w.
inline values norm(bool centred, const std::vector<values>& of) {
  const values &x = of[0], &w = of[1];
  values y;
  for (std::size_t row = 0; row < x.size(); row += w.size()) {
    const auto n = static_cast<double>(w.size());
    double mean = 0, square = 0;
    for (std::size_t i = 0; centred && i < w.size(); ++i) mean += x[row + i] / n;
    for (std::size_t i = 0; i < w.size(); ++i) square += (x[row + i] - mean) * (x[row + i] - mean) / n;
    for (std::size_t i = 0; i < w.size(); ++i)
      y.push_back((x[row + i] - mean) / std::sqrt(square + 1e-5) * w[i] + (centred ? of[2][i] : 0));
  }
  return y;
}

}  // namespace reference

template <class R>
void rows_table(R& r) {
  namespace gr = gradus;
  const auto each_exp = [](values x) {
    for (double& v : x) v = std::exp(v);
    return x;
  };
  const auto softmax = [](auto x) { return gr::softmax(x); };
  const auto log_softmax = [](auto x) { return gr::log_softmax(x); };
  const auto logsumexp = [](auto x) { return gr::logsumexp(x); };
  const auto probabilities = [=](std::size_t n) {
    return [=](const std::vector<values>& of) { return each_exp(reference::log_softmax(n, of[0])); };
  };
  const auto logarithms = [](std::size_t n) {
    return [=](const std::vector<values>& of) { return reference::log_softmax(n, of[0]); };
  };
  const auto sums = [](std::size_t n) {
    return [=](const std::vector<values>& of) { return reference::logsumexp(n, of[0]); };
  };
  r.template hold<gr::shape<9, 19>>("softmax", softmax, probabilities(19));
  r.template hold<gr::shape<3, 1>>("softmax", softmax, probabilities(1));
  r.template also<gr::shape<2, 3, 64>>("softmax", softmax, probabilities(64));
  r.template hold<gr::shape<9, 19>>("log_softmax", log_softmax, logarithms(19));
  r.template also<gr::shape<37, 129>>("log_softmax", log_softmax, logarithms(129));
  r.template hold<gr::shape<9, 19>>("logsumexp", logsumexp, sums(19));
  r.template also<gr::shape<7>>("logsumexp", logsumexp, sums(7));
  r.template also<gr::shape<9, 1>>("logsumexp", logsumexp, sums(1));
  r.template also<gr::shape<37, 129>>("logsumexp", logsumexp, sums(129), {.low = -9, .high = 9});
  r.template also<gr::shape<3, 35>>("logsumexp far from 0", logsumexp, sums(35), {.offset = -1e4, .within = 1e-5});
  r.template on_gpu<gr::bf16, gr::shape<11, 136>>("logsumexp, bf16", logsumexp);
  r.template on_gpu<double, gr::shape<2, 1037>>("logsumexp of a block, double", logsumexp);
  r.template on_gpu<gr::bf16, gr::shape<11, 136>>("softmax, bf16", softmax);
  r.template on_gpu<float, gr::shape<2, 3, 64>>("softmax, whole runs", softmax);
  r.template on_gpu<float, gr::shape<3, 2052>>("log_softmax of a block", log_softmax);
  r.template on_gpu<double, gr::shape<2, 1037>>("log_softmax of a block, double", log_softmax);
  r.template on_gpu<float, gr::shape<2, 33001>>("log_softmax of a long row", log_softmax);

  const auto layer = [](auto x, auto w, auto b) { return gr::layer_norm(x, w, b); };
  const auto rms = [](auto x, auto w) { return gr::rms_norm(x, w); };
  const auto centred = [](const std::vector<values>& of) { return reference::norm(true, of); };
  const auto scaled = [](const std::vector<values>& of) { return reference::norm(false, of); };
  r.template hold<gr::shape<19, 5>, gr::shape<5>, gr::shape<5>>("layer_norm", layer, centred);
  r.template also<gr::shape<3, 5, 13>, gr::shape<13>, gr::shape<13>>("layer_norm", layer, centred);
  r.template also<gr::shape<70, 3>, gr::shape<3>, gr::shape<3>>("layer_norm", layer, centred,
                                                                {.low = 0, .high = 9, .within = 1e-3});
  r.template also<gr::shape<1, 16>, gr::shape<16>, gr::shape<16>>("layer_norm", layer, centred);
  r.template also<gr::shape<37, 129>, gr::shape<129>, gr::shape<129>>("layer_norm", layer, centred);
  r.template also<gr::shape<131, 384>, gr::shape<384>, gr::shape<384>>("layer_norm", layer, centred);
  r.template hold<gr::shape<19, 12>, gr::shape<12>>("rms_norm", rms, scaled);
  r.template also<gr::shape<100>, gr::shape<100>>("rms_norm", rms, scaled);
  r.template also<gr::shape<7, 2>, gr::shape<2>>("rms_norm", rms, scaled);
  r.template also<gr::shape<131, 384>, gr::shape<384>>("rms_norm", rms, scaled);
  r.template on_gpu<float, gr::shape<2, 37, 48>, gr::shape<48>, gr::shape<48>>("layer_norm", layer);
  r.template on_gpu<float, gr::shape<2200, 8>, gr::shape<8>, gr::shape<8>>("layer_norm, many rows", layer);
  r.template on_gpu<float, gr::shape<5, 1500>, gr::shape<1500>, gr::shape<1500>>("layer_norm of a block", layer);
  r.template on_gpu<float, gr::shape<900, 780>, gr::shape<780>, gr::shape<780>>(
      "layer_norm of two warps, more rows than the blocks have at once", layer);
  r.template on_gpu<gr::bf16, gr::shape<7, 1800>, gr::shape<1800>, gr::shape<1800>>("layer_norm of four warps, bf16",
                                                                                    layer);
  r.template on_gpu<float, gr::shape<37, 12>, gr::shape<12>>("layer_norm whose weight is its bias",
                                                             [](auto x, auto w) { return gr::layer_norm(x, w, w); });
  r.template on_gpu<double, gr::shape<7, 34>, gr::shape<34>, gr::shape<34>>("layer_norm, double", layer);
  r.template on_gpu<gr::f16, gr::shape<12, 40>, gr::shape<40>, gr::shape<40>>("layer_norm, f16", layer);
  r.template on_gpu<gr::bf16, gr::shape<3, 1031>, gr::shape<1031>>("rms_norm, bf16", rms);
}

}  // namespace gradus_test
