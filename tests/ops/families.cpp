#include <doctest/doctest.h>

#include <cstdint>

#include "op_case.hpp"

namespace gr = gradus;
using namespace gradus_test;

// Values of these are held against references in tests/unit/ops and against PyTorch in tests/parity.
TEST_CASE("operations that move, multiply, pool, attend and look up have one result, however they are run") {
  workplace at;
  const auto ids = integers<std::int32_t, gr::shape<7, 5>>(at.ctx, 0, 10);
  const auto rows = integers<std::int32_t, gr::shape<9>>(at.ctx, 0, 10);
  truth r;
  r.hold<gr::shape<9, 13>, gr::shape<13, 21>>("matmul", [](auto a, auto b) { return gr::matmul(a, b); });
  r.hold<gr::shape<3, 9, 5>, gr::shape<5, 7>>("matmul shared", [](auto a, auto b) { return gr::matmul(a, b); });
  r.hold<gr::shape<3, 5, 9>, gr::shape<3, 7, 5>>(
      "matmul t t", [](auto a, auto b) { return gr::matmul<gr::transpose{.a = true, .b = true}>(a, b); });
  r.hold<gr::shape<3, 5, 9>, gr::shape<5, 7>>(
      "matmul ta shared", [](auto a, auto b) { return gr::matmul<gr::transpose{.a = true}>(a, b); });
  r.hold<gr::shape<70, 130>, gr::shape<130, 65>, gr::shape<65>>(
      "linear large", [](auto a, auto b, auto c) { return gr::linear(a, b, c); });
  r.hold<gr::shape<2, 5, 7>, gr::shape<7, 3>, gr::shape<3>>("linear",
                                                            [](auto a, auto b, auto c) { return gr::linear(a, b, c); });
  r.hold<gr::shape<5, 7, 9>>("permute", [](auto a) { return gr::permute<2, 0, 1>(a); });
  r.hold<gr::shape<70, 3, 130>>("permute large", [](auto a) { return gr::permute<2, 0, 1>(a); });
  r.hold<gr::shape<3, 5, 7>, gr::shape<3, 2, 7>>("concat", [](auto a, auto b) { return gr::concat<1>(a, b, a); });
  r.hold<gr::shape<3, 5, 7>>("slice", [](auto a) { return gr::slice<1, 1, 3>(a); });
  r.hold<gr::shape<3, 5, 7>>("stack", [](auto a) { return gr::stack<1>(a, a); });
  r.hold<gr::shape<3, 5, 7>>("roll", [](auto a) { return gr::roll<1>(a, 2); });
  r.hold<gr::shape<5, 7>>("tril", [](auto a) { return gr::tril(a); });
  r.hold<gr::shape<3, 1, 7>>("expand", [](auto a) { return gr::expand<3, 5, 7>(a); });
  r.hold<gr::shape<2, 3, 7, 9>>(
      "max_pool", [](auto a) { return gr::max_pool2d<gr::pool{.size = 3, .stride = 2, .padding = 1}>(a); }, {},
      {.apart = true});
  r.hold<gr::shape<2, 3, 7, 9>>(
      "avg_pool", [](auto a) { return gr::avg_pool2d<gr::pool{.size = 3, .stride = 2, .padding = 1}>(a); });
  r.hold<gr::shape<2, 3, 7, 8>, gr::shape<4, 3, 3, 3>, gr::shape<4>>(
      "conv2d", [](auto x, auto w, auto b) { return gr::conv2d(x, w, b); });
  r.hold<gr::shape<3, 6, 17>, gr::shape<6>, gr::shape<6>>(
      "group_norm", [](auto x, auto w, auto b) { return gr::group_norm<2>(x, w, b); }, {}, {.within = 1e-4});
  r.hold<gr::shape<2, 13, 30>>("causal_attention", [](auto x) { return gr::causal_attention<2>(x); });
  r.hold<gr::shape<2, 3, 5, 8>, gr::shape<2, 3, 7, 8>, gr::shape<2, 3, 7, 8>>(
      "attention", [](auto q, auto k, auto v) { return gr::attention(q, k, v); });
  r.hold<gr::shape<2, 5, 24>>("rope", [](auto x) { return gr::rope<3>(x); });
  r.hold<gr::shape<11, 19>>("embedding", [&](auto w) { return gr::embedding(ids, w); });
  r.hold<gr::shape<9, 11>>("cross_entropy", [&](auto x) { return gr::cross_entropy(x, rows); });
  r.hold<gr::shape<9, 11>>("nll", [&](auto x) { return gr::nll_loss(gr::log_softmax(x), rows); });
  r.hold<gr::shape<9, 7>, gr::shape<11, 7>>("linear_cross_entropy",
                                            [&](auto x, auto w) { return gr::linear_cross_entropy(x, w, rows); });
  r.hold<gr::shape<9, 7>, gr::shape<9, 7>>("mse", [](auto x, auto y) { return gr::mse_loss(x, y); });
  r.hold<gr::shape<300, 70>, gr::shape<300, 1>>(
      "normalised", [](auto x, auto y) { return (x - gr::mean<1>(x, gr::keep_axes)) * y / (gr::exp(y) + x * x); }, {},
      {.halves = false});
}
