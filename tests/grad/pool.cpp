#include "check.hpp"

namespace gr = gradus;
using namespace gradus_test;

namespace {
constexpr gr::pool apart_windows{.size = {2, 3}}, overlapping{.size = 3, .stride = 2, .padding = 1};
}  // namespace

TEST_CASE("gradients of pooling are right: windows side by side, overlapping, padded, adaptive, of sequences") {
  workplace at;
  const auto x = apart<gr::shape<2, 2, 5, 7>>(at.ctx);
  check_gradient(
      "max_pool2d", [](auto v) { return gr::max_pool2d<apart_windows>(v); }, x);
  check_gradient(
      "max_pool2d, overlapping", [](auto v) { return gr::max_pool2d<overlapping>(v); }, x);
  check_gradient(
      "avg_pool2d", [](auto v) { return gr::avg_pool2d<apart_windows>(v); }, x);
  check_gradient(
      "avg_pool2d, overlapping", [](auto v) { return gr::avg_pool2d<overlapping>(v); }, x);
  check_gradient(
      "adaptive_max_pool2d", [](auto v) { return gr::adaptive_max_pool2d<2, 3>(v); }, x);
  check_gradient(
      "adaptive_avg_pool2d", [](auto v) { return gr::adaptive_avg_pool2d<3, 9>(v); }, x);
  const auto sequence = apart<gr::shape<2, 3, 9>>(at.ctx);
  check_gradient(
      "max_pool1d", [](auto v) { return gr::max_pool1d<overlapping>(v); }, sequence);
  check_gradient(
      "avg_pool1d", [](auto v) { return gr::avg_pool1d<overlapping>(v); }, sequence);
}
