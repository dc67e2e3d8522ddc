#include <doctest/doctest.h>

#include <gradus/gradus.hpp>
#include <string>
#include <vector>

namespace gr = gradus;
using X = gr::on<gr::cpu, gr::fp32>;

TEST_CASE("nn::rms_norm has one weight, which starts at one, and is rms_norm with it") {
  gr::stream stream;
  gr::host_resource heap;
  gr::context ctx{stream, heap};
  gr::nn::rms_norm<X, 3> norm;
  gr::init(norm, ctx, gr::normal_init{});
  std::vector<std::string> names;
  gr::for_each_param(norm, [&](std::string_view name, const auto&) { names.emplace_back(name); });
  CHECK(names == std::vector<std::string>{"weight"});
  CHECK(gr::to_host(norm.weight.value()) == std::vector<float>{1, 1, 1});

  norm.weight.set(gr::from_values<float, gr::shape<3>>(ctx, {1, 2, -3}));
  const auto x = gr::normal<float, gr::shape<2, 4, 3>>(ctx, {.seed = 1});
  CHECK(gr::to_host(norm(x)) == gr::to_host(gr::rms_norm(x, norm.weight.value())));
  gr::tape tape{ctx};
  gr::backward(gr::sum(norm(tape.watch(x))));
  CHECK(norm.weight.gradient());
}

TEST_CASE("a bias with axes of 1 starts at zero and is not decayed; weights of one input or output are drawn and are") {
  gr::stream stream;
  gr::host_resource heap;
  gr::context ctx{stream, heap};
  struct model {
    gr::param<X, 4, 1, 1> bias;
    gr::param<X, 4, 3, 1, 1> pointwise;
    gr::param<X, 1, 3> from_one;
    gr::nn::linear<X, 3, 1> to_one;
    GRADUS_MEMBERS(bias, pointwise, from_one, to_one)
  } net;
  gr::init(net, ctx, gr::he_normal{.seed = 1});
  for (const float b : gr::to_host(net.bias.value())) CHECK(b == 0);
  CHECK(net.pointwise.value()(1, 2, 0, 0) != 0);
  CHECK(net.from_one.value()(0, 2) != 0);
  CHECK(net.to_one.weight.value()(2, 0) != 0);

  std::vector<bool> matrices;
  gr::sgd opt{net, {.lr = 1, .weight_decay = 0.5}, [&](const gr::param_info& p) {
                matrices.push_back(p.is_matrix);
                return gr::decay_matrices(p);
              }};
  CHECK(matrices == std::vector<bool>{false, true, true, true, false});
  net.bias.set(gr::ones<float, gr::shape<4, 1, 1>>(ctx, gr::category::parameter));
  const float before = net.from_one.value()(0, 2);
  gr::tape tape{ctx};
  const auto x = tape.watch(gr::zeros<float, gr::shape<4, 3, 3>>(ctx));
  gr::backward(gr::sum(x * net.from_one + net.bias));
  opt.step(ctx);
  CHECK(net.bias.value()(3, 0, 0) == 1 - 9);
  CHECK(net.from_one.value()(0, 2) == before * 0.5f);

  gr::adafactor factored{net, {}};
  std::vector<std::string> states;
  factored.for_each_state(ctx, net, [&](const auto& s) { states.emplace_back(s.state); });
  CHECK(states == std::vector<std::string>{"exp_avg_sq", "exp_avg_sq_row", "exp_avg_sq_col", "exp_avg_sq_row",
                                           "exp_avg_sq_col", "exp_avg_sq_row", "exp_avg_sq_col", "exp_avg_sq"});
}
