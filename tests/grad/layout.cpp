// softmax, and the operations that move elements without computing.
#include "check.hpp"

namespace gr = gradus;
using namespace gradus_test;

TEST_CASE("gradients of softmax and its logarithm are right for one column, odd counts and more than a pack") {
  workplace at;
  const auto check = [&]<class S>(S) {
    const auto x = normal<double, S>(at.ctx);
    check_gradient(
        "softmax", [](auto v) { return gr::softmax(v); }, x);
    check_gradient(
        "log_softmax", [](auto v) { return gr::log_softmax(v); }, x);
  };
  check(gr::shape<1>{});
  check(gr::shape<2, 3>{});
  check(gr::shape<3, 19>{});
  check(gr::shape<2, 2, 16>{});
}

TEST_CASE("gradients of reshape, permute, slice, concat and split are right") {
  workplace at;
  const auto x = normal<double, gr::shape<3, 4, 5>>(at.ctx);
  const auto y = normal<double, gr::shape<3, 2, 5>>(at.ctx);
  check_gradient(
      "reshape", [](auto v) { return gr::reshape<6, 10>(v); }, x);
  check_gradient(
      "reshape to itself", [](auto v) { return gr::reshape<3, 4, 5>(v) * v; }, x);
  check_gradient(
      "permute 102", [](auto v) { return gr::permute<1, 0, 2>(v); }, x);
  check_gradient(
      "permute 120", [](auto v) { return gr::permute<1, 2, 0>(v); }, x);
  check_gradient(
      "permute 201", [](auto v) { return gr::permute<2, 0, 1>(v); }, x);
  check_gradient(
      "permute 021", [](auto v) { return gr::permute<0, 2, 1>(v); }, x);
  check_gradient(
      "permute 210", [](auto v) { return gr::permute<2, 1, 0>(v); }, x);
  check_gradient(
      "slice 0", [](auto v) { return gr::slice<0, 1, 2>(v); }, x);
  check_gradient(
      "slice 1", [](auto v) { return gr::slice<1, 0, 3>(v); }, x);
  check_gradient(
      "slice 2", [](auto v) { return gr::slice<2, 4, 1>(v); }, x);
  check_gradient(
      "concat", [](auto u, auto v) { return gr::concat<1>(u, v, u); }, x, y);
  check_gradient(
      "split",
      [](auto v) {
        const auto [a, b, c] = gr::split<1, 1, 2, 1>(v);
        return gr::concat<1>(b * 2.0, c, a * a);
      },
      x);
}

TEST_CASE("gradients of run-time slices, stack, pad, roll, expand and an inferred extent are right") {
  workplace at;
  const auto x = normal<double, gr::shape<3, 4, 5>>(at.ctx);
  const auto y = normal<double, gr::shape<3, 1, 5>>(at.ctx);
  check_gradient(
      "slice at 1", [](auto v) { return gr::slice<1, 2>(v, 1) * gr::slice<1, 2>(v, 2); }, x);
  check_gradient(
      "stack", [](auto u, auto v) { return gr::stack<1>(u, v, u * v); }, y, y);
  check_gradient(
      "pad", [](auto v) { return gr::pad<1, 2, 1>(v, 1.5) + gr::pad<1, 0, 3>(v); }, x);
  check_gradient(
      "roll", [](auto v) { return gr::roll<1>(v, -1) * gr::roll<2>(v, 7); }, x);
  check_gradient(
      "expand", [](auto v) { return gr::expand<2, 3, 4, 5>(v) + gr::expand<1, 3, 1, 5>(v); }, y);
  check_gradient(
      "reshape -1", [](auto v) { return gr::reshape<-1, 10>(v); }, x);
}

TEST_CASE("gradients of sort and topk go to where the elements were") {
  workplace at;
  const auto x = apart<gr::shape<3, 19>>(at.ctx);
  check_gradient(
      "sort", [](auto v) { return gr::sort(v) * gr::sort<gr::sort_order::descending>(v); }, x);
  check_gradient(
      "topk", [](auto v) { return gr::topk<5>(v).first; }, x);
}

TEST_CASE("gradients of tril and triu are right") {
  workplace at;
  check_gradient(
      "tril, triu", [](auto v) { return gr::tril<1>(v) * gr::triu<-2>(v * v) + gr::triu(v); },
      normal<double, gr::shape<2, 5, 7>>(at.ctx));
}

TEST_CASE("gradients of interpolate, index_add and expand_as are right") {
  workplace at;
  const auto x = normal<double, gr::shape<2, 1, 4, 5>>(at.ctx);
  check_gradient(
      "nearest", [](auto v) { return gr::interpolate<7, 3>(v) * gr::interpolate<7, 3>(v * v); }, x);
  check_gradient(
      "bilinear", [](auto v) { return gr::interpolate<6, 13, gr::interpolation::bilinear>(v * v); }, x);
  check_gradient(
      "bilinear, smaller", [](auto v) { return gr::interpolate<3, 2, gr::interpolation::bilinear>(v * v); }, x);
  const auto rows = integers<std::int32_t, gr::shape<7>>(at.ctx, 0, 3);
  check_gradient(
      "index_add", [&](auto v, auto w) { return gr::index_add<2>(v * v, rows, w * w); }, x,
      normal<double, gr::shape<2, 1, 7, 5>>(at.ctx));
  check_gradient(
      "expand_as", [&](auto v) { return gr::expand_as(v * v, x) * x; }, normal<double, gr::shape<1, 4, 1>>(at.ctx));
}
