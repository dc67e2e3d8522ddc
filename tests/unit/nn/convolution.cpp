#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../../support/operands.hpp"

namespace gr = gradus;
using namespace gradus_test;

namespace {

using X = gr::on<gr::cpu>;

// Layers of each kind: strided and grouped, 3 x 3 at stride 1, depthwise, transposed, and of a sequence.
template <class D, class Precision>
struct net {
  using on = gr::on<D, Precision>;
  gr::nn::conv2d<on, 4, 32, 3, gr::conv{.stride = 2, .padding = 1, .groups = 2}> first;
  gr::nn::conv2d<on, 32, 24, 3, gr::conv{.padding = 1}, gr::nn::no_bias> second;
  gr::nn::conv2d<on, 24, 24, gr::per_axis(3, 1), gr::conv{.padding = {1, 0}, .groups = 24}> third;
  gr::nn::conv_transpose2d<on, 24, 2, 2, gr::conv_transpose{.stride = 2}> fourth;
  gr::nn::conv1d<on, 16, 1, 5> last;
  GRADUS_MEMBERS(first, second, third, fourth, last)

  constexpr auto operator()(auto x) const {
    return last(gr::reshape<3, 16, 8>(fourth(third(gr::relu(second(gr::relu(first(std::move(x)))))))));
  }
};
template <class Precision, class D>
constexpr auto step(gr::context<D>& ctx, net<D, Precision>& model) {
  gr::tape tape{ctx};
  const auto y = model(tape.variable(gr::ones<float, gr::shape<3, 4, 8, 8>>(ctx)));
  auto loss = gr::mean(y * y);
  auto value = loss.value();
  gr::backward(loss);
  return value;
}
template <class Precision>
constexpr std::size_t planned_bytes() {
  gr::meta_stream stream;
  gr::accounting memory;
  gr::context ctx{stream, memory};
  net<gr::meta, Precision> model;
  gr::init(model, ctx, gr::normal_init{});
  step(ctx, model);
  return memory.peak_bytes();
}

}  // namespace

TEST_CASE_TEMPLATE("a step of convolutions needs the bytes that meta counts, in every policy", P, gr::fp32,
                   gr::bf16_mixed, gr::fp16_mixed) {
  workplace at;
  net<gr::cpu, P> model;
  gr::init(model, at.ctx, gr::he_normal{.seed = 3});
  const float loss = static_cast<float>(gr::item(step(at.ctx, model)));
  constexpr std::size_t planned = planned_bytes<P>();
  CHECK(at.stats.all().peak == planned);

  workplace exact;
  net<gr::cpu, gr::fp32> other;
  gr::init(other, exact.ctx, gr::he_normal{.seed = 3});
  CHECK(loss == doctest::Approx(gr::item(step(exact.ctx, other))).epsilon(0.03));
  CHECK(error_in_norm(gr::to_host(model.second.weight.gradient()), gr::to_host(other.second.weight.gradient())) < 0.03);
}

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
