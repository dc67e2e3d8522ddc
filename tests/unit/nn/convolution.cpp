#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "../../support/operands.hpp"

namespace gr = gradus;
using namespace gradus_test;

namespace {

using X = gr::on<gr::cpu>;

}  // namespace

TEST_CASE("a layer of filters is named and shaped as in PyTorch, and one without a bias has no such parameter") {
  std::vector<std::string> names;
  gr::nn::conv2d<X, 6, 4, 3, gr::conv{.groups = 2}> with;
  gr::nn::conv2d<X, 6, 4, 3, gr::conv{.groups = 2}, gr::nn::no_bias> without;
  gr::for_each_param(with, [&](std::string_view name, auto& p) {
    names.emplace_back(name);
    if (name == "weight") CHECK(p.size() == 4 * 3 * 3 * 3);
  });
  CHECK(names == std::vector<std::string>{"weight", "bias"});
  names.clear();
  gr::for_each_param(without, [&](std::string_view name, auto&) { names.emplace_back(name); });
  CHECK(names == std::vector<std::string>{"weight"});
}

TEST_CASE("he_normal draws the weights of a convolution for the inputs that one of its outputs sums") {
  workplace at;
  gr::nn::conv2d<X, 64, 32, 3, gr::conv{.groups = 2}> layer;
  gr::init(layer, at.ctx, gr::he_normal{.seed = fresh_seed()});
  double squares = 0;
  for (const float v : layer.weight.value().values()) squares += double{v} * double{v};
  CHECK(squares / static_cast<double>(layer.weight.size()) == doctest::Approx(2.0 / (32 * 9)).epsilon(0.1));
  for (const float v : layer.bias.value().values()) CHECK(v == 0);
}
