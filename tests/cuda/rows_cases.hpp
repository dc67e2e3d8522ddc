#pragma once
#include <gradus/ops/layer_norm/layer_norm.hpp>
#include <gradus/ops/logsumexp/logsumexp.hpp>
#include <gradus/ops/rms_norm/rms_norm.hpp>
#include <gradus/ops/softmax/softmax.hpp>

#include "cases.hpp"

template <class D>
void rows_cases(runner<D>& r) {
  const auto softmax = [](auto x) { return gr::softmax(x); };
  const auto log_softmax = [](auto x) { return gr::log_softmax(x * 2.0); };
  const auto logsumexp = [](auto x) { return gr::logsumexp(x); };
  r.template differentiate<float, gr::shape<9, 19>>("logsumexp, odd", logsumexp);
  r.template differentiate<gr::bf16, gr::shape<11, 136>>("logsumexp, bf16", logsumexp);
  r.template differentiate<double, gr::shape<2, 1037>>("logsumexp of a block, double", logsumexp);
  r.template differentiate<float, gr::shape<3, 1>>("softmax of one", softmax);
  r.template differentiate<float, gr::shape<9, 19>>("softmax, odd", softmax);
  r.template differentiate<float, gr::shape<2, 3, 64>>("softmax, whole runs", softmax);
  r.template differentiate<gr::bf16, gr::shape<11, 136>>("softmax, bf16", softmax);
  r.template differentiate<float, gr::shape<3, 2052>>("log_softmax of a block", log_softmax);
  r.template differentiate<double, gr::shape<2, 1037>>("log_softmax of a block, double", log_softmax);
  r.template differentiate<float, gr::shape<2, 33001>>("log_softmax of a long row", log_softmax);

  const auto layer = [](auto x, auto w, auto b) { return gr::layer_norm(x, w, b); };
  const auto rms = [](auto x, auto w) { return gr::rms_norm(x, w); };
  r.template differentiate<float, gr::shape<19, 5>, gr::shape<5>, gr::shape<5>>("layer_norm, odd", layer);
  r.template differentiate<float, gr::shape<2, 37, 48>, gr::shape<48>, gr::shape<48>>("layer_norm", layer);
  r.template differentiate<float, gr::shape<2200, 8>, gr::shape<8>, gr::shape<8>>("layer_norm, many rows", layer);
  r.template differentiate<float, gr::shape<5, 1500>, gr::shape<1500>, gr::shape<1500>>("layer_norm of a block", layer);
  r.template differentiate<float, gr::shape<900, 780>, gr::shape<780>, gr::shape<780>>(
      "layer_norm of two warps, more rows than the blocks have at once", layer);
  r.template differentiate<gr::bf16, gr::shape<7, 1800>, gr::shape<1800>, gr::shape<1800>>(
      "layer_norm of four warps, bf16", layer);
  r.template differentiate<float, gr::shape<37, 12>, gr::shape<12>>(
      "layer_norm whose weight is its bias", [](auto x, auto w) { return gr::layer_norm(x, w, w); });
  r.template differentiate<double, gr::shape<7, 34>, gr::shape<34>, gr::shape<34>>("layer_norm, double", layer);
  r.template differentiate<gr::f16, gr::shape<12, 40>, gr::shape<40>, gr::shape<40>>("layer_norm, f16", layer);
  r.template differentiate<float, gr::shape<19, 12>, gr::shape<12>>("rms_norm", rms);
  r.template differentiate<gr::bf16, gr::shape<3, 1031>, gr::shape<1031>>("rms_norm, bf16", rms);
}

// Computed in the .cpp file.
std::vector<record> rows_on_cpu(unsigned seed);
