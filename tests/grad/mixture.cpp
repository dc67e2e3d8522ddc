#include <doctest/doctest.h>

#include <cstdint>

#include "check.hpp"

namespace gr = gradus;
using namespace gradus_test;

TEST_CASE("gradients of grouped_matmul are right, with empty groups, rows outside of groups and beyond a pack") {
  workplace at;
  const auto ends = gr::from_values<std::int32_t, gr::shape<5>>(at.ctx, {1, 4, 4, 12, 13});
  const auto x = normal<double, gr::shape<15, 19>>(at.ctx);
  const auto w = normal<double, gr::shape<4, 19, 3>>(at.ctx);
  check_gradient(
      "grouped_matmul", [&](auto v, auto m) { return gr::grouped_matmul(v, m, ends); }, x, w);
}

TEST_CASE("gradients of dispatch_rows and combine_rows are right, also those of the weights") {
  workplace at;
  const auto places = gr::sort_by_group<3>(integers<std::int32_t, gr::shape<7, 2>>(at.ctx, 0, 2), 4).places;
  const auto x = normal<double, gr::shape<7, 19>>(at.ctx);
  const auto rows = normal<double, gr::shape<14, 19>>(at.ctx);
  const auto weights = normal<double, gr::shape<7, 2>>(at.ctx);
  check_gradient(
      "dispatch_rows", [&](auto v) { return gr::dispatch_rows(v, places); }, x);
  check_gradient(
      "combine_rows", [&](auto v, auto w) { return gr::combine_rows(v, w, places); }, rows, weights);
}

namespace {
template <class Mixture>
void check_mixture(const char* what, bool renormalise, double capacity) {
  workplace at;
  Mixture net;
  gr::init(net, at.ctx, gr::normal_init{.seed = 36, .stddev = 0.5});
  net.options = {.renormalise = renormalise, .balance = 0.7, .z = 0.4, .capacity = capacity};
  const auto x =
      normal<double, gr::shape<2, 6, 4>>(at.ctx, 1, 36);  // no two probabilities are close: a choice is a kink
  check_gradient(
      what, [&](auto v) { return std::get<0>(net(v)); }, x);
  check_gradient(
      "its auxiliary loss", [&](auto v) { return std::get<1>(net(v)); }, x);
}
}  // namespace

TEST_CASE("gradients of a mixture of experts are right: through experts, gates, and its losses") {
  using X = gr::on<gr::cpu, gr::fp64>;
  check_mixture<gr::nn::mixture<X, 4, 3, 2, gr::nn::swiglu_experts<X, 3, 4, 5>>>("mixtral", true, 0);
  check_mixture<gr::nn::mixture<X, 4, 3, 1, gr::nn::mlp_experts<X, 3, 4, 5>>>("switch", false, 1);
}
