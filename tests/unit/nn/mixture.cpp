// Mixtures of experts in models: checkpoint regions, the load of experts, bounded batches and plans.
#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "../../support/operands.hpp"

namespace gr = gradus;
using namespace gradus_test;

namespace {

constexpr gr::index_t width = 12, heads = 2, experts = 4, per_token = 2, layers = 3;

template <class X>
struct stack {
  using block_type = gr::nn::mixture_block<X, width, heads, experts, per_token, layers,
                                           gr::nn::mlp_experts<X, experts, width, 20, layers>>;
  std::array<block_type, layers> blocks;
  gr::region_schedule regions;
  GRADUS_MEMBERS(blocks)

  // The residual stream and the auxiliary loss.
  constexpr auto operator()(const auto& x, double drop) const {
    return gr::chain(blocks, std::tuple{x, gr::nn::no_auxiliary_loss(x)}, regions,
                     [drop](const auto& block, auto v) { return block(std::move(v), drop); });
  }
};

template <class X>
std::vector<std::vector<float>> trained(const gr::region_schedule& regions) {
  workplace at;
  stack<X> net;
  gr::init(net, at.ctx, gr::normal_init{.seed = 5, .stddev = 0.3});
  net.regions = regions;
  gr::tape tape{at.ctx, 9};
  const auto x = tape.variable(gr::normal<float, gr::shape<2, 7, width>>(at.ctx, {.seed = 1}));
  const auto [y, loss] = net(x, 0.2);
  std::vector<std::vector<float>> all{gr::to_host(loss.value())};
  const auto load = [&] {
    for (const auto& block : net.blocks) all.push_back(gr::to_host(block.mixture.load.value()));
  };
  load();
  gr::backward(gr::mean(y * y) + loss);
  load();
  all.push_back(gr::to_host(x.gradient()));
  gr::for_each_param(net, [&](auto, const auto& p) { all.push_back(gr::to_host(p.gradient())); });
  return all;
}

// The peak of a training step.
template <class X, class Resource>
constexpr auto step_in(typename X::device::stream_type& stream, Resource& memory, const gr::region_schedule& regions) {
  gr::context<typename X::device> ctx{stream, memory};
  stack<X> net;
  gr::init(net, ctx, gr::normal_init{});
  net.regions = regions;
  gr::tape<typename X::device> tape{ctx};
  for (int step = 0; step < 2; ++step) {
    const auto x = tape.watch(gr::zeros<float, gr::shape<2, 7, width>>(ctx));
    auto [y, loss] = net(x, 0.1);
    gr::backward(gr::mean(y * y) + std::move(loss));
    gr::clear_gradients(net);
  }
}

}  // namespace

TEST_CASE("mixtures in checkpoint regions have the bits of plain ones, and count their load once") {
  using X = gr::on<gr::cpu>;
  const auto plain = trained<X>({});
  for (gr::index_t layer = 0; layer < layers; ++layer) {
    float tokens = 0;
    for (const float count : plain[1 + layer]) tokens += count;
    CHECK(tokens == 2 * 7 * per_token);
    CHECK(plain[1 + layer] == plain[1 + layers + layer]);  // after backward
  }
  CHECK(trained<X>(gr::region_schedule::every_block(layers)) == plain);
  CHECK(trained<X>(gr::region_schedule::every_block(layers, 0b1010101)) == plain);
  gr::region_schedule nested;
  nested.parts = {{0, 0, false}, {1, 2, true, 0, {{1, 1, true}, {2, 2, true}}}};
  CHECK(trained<X>(nested) == plain);
  using half = gr::on<gr::cpu, gr::bf16_mixed>;
  CHECK(trained<half>(gr::region_schedule::every_block(layers)) == trained<half>({}));
}

TEST_CASE("a mixture block is its parts, with dropout on both") {
  workplace at;
  using X = gr::on<gr::cpu>;
  gr::nn::mixture_block<X, width, heads, experts, per_token> net;
  gr::init(net, at.ctx, gr::normal_init{.seed = 6, .stddev = 0.3});
  const auto v = normal<float, gr::shape<2, 7, width>>(at.ctx);
  const auto run = [&](const auto& f) {
    gr::tape tape{at.ctx, 9};
    const auto x = tape.variable(v);
    const auto [y, loss] = f(x);
    gr::backward(gr::sum(y * y) + loss);
    const std::vector found{numbers(y.value()), numbers(loss.value()), numbers(x.gradient())};
    gr::clear_gradients(net);
    return found;
  };
  const auto whole = run([&](const auto& x) { return net(std::tuple{x, gr::nn::no_auxiliary_loss(x)}, 0.5); });
  const auto parts = run([&](const auto& x) {
    const auto y = x + gr::dropout(net.attention(net.norm1(x)), 0.5);
    auto [z, loss] = net.mixture(net.norm2(y));
    return std::tuple{y + gr::dropout(z, 0.5), std::move(loss)};
  });
  CHECK(whole == parts);
}

TEST_CASE("the load of experts is left alone by inference, and router and losses are float in bf16_mixed") {
  workplace at;
  using X = gr::on<gr::cpu, gr::bf16_mixed>;
  gr::nn::mixture<X, width, experts, per_token> net;
  gr::init(net, at.ctx, gr::normal_init{.seed = 2});
  const auto x = gr::cast<gr::bf16>(normal<float, gr::shape<9, width>>(at.ctx));
  const auto [y, loss] = net(x);
  static_assert(std::is_same_v<decltype(y)::value_type, gr::bf16>);
  static_assert(std::is_same_v<decltype(loss)::value_type, float>);
  CHECK(gr::to_host(net.load.value()) == std::vector<float>(experts));
  CHECK(same_bits(net.output(x), y));
  gr::tape tape{at.ctx};
  const auto recorded = net(tape.watch(x));
  CHECK(same_bits(std::get<0>(recorded).value(), y));
  CHECK(gr::to_host(net.load.value()) != std::vector<float>(experts));
}

TEST_CASE("a mixture of equal experts, without dropped tokens, is one of them") {
  workplace at;
  using X = gr::on<gr::cpu>;
  gr::nn::mixture<X, width, experts, 3> net;
  gr::init(net, at.ctx, gr::normal_init{.seed = 2, .stddev = 0.2});
  const auto up = normal<float, gr::shape<1, width, 4 * width>>(at.ctx, 0.2);
  const auto down = normal<float, gr::shape<1, 4 * width, width>>(at.ctx, 0.2);
  net.experts.up.set(gr::concat<0>(up, up, up, up));
  net.experts.down.set(gr::concat<0>(down, down, down, down));
  const auto x = normal<float, gr::shape<2, 5, width>>(at.ctx);
  const auto one =
      gr::linear(gr::gelu(gr::linear(x, gr::reshape<width, 4 * width>(up))), gr::reshape<4 * width, width>(down));
  CHECK(worst_error(net.output(x), one) < 1e-5);
}

TEST_CASE("a mixture of a bounded batch has the bits of the static one") {
  workplace at;
  using X = gr::on<gr::cpu>;
  gr::nn::mixture<X, width, experts, per_token> net;
  gr::init(net, at.ctx, gr::normal_init{.seed = 2, .stddev = 0.2});
  net.options.capacity = 1;
  const auto x = normal<float, gr::shape<3, 5, width>>(at.ctx);
  const auto some = gr::from_host<float, gr::shape<gr::upto<8>, 5, width>>(at.ctx, x.data(), 3);
  const auto run = [&](const auto& v) {
    gr::tape tape{at.ctx};
    const auto variable = tape.variable(v);
    const auto [y, loss] = net(variable);
    gr::backward(gr::mean(y * y) + loss);
    std::vector<values> all{numbers(y.value()), numbers(loss.value()), numbers(variable.gradient())};
    gr::for_each_param(net, [&](auto, const auto& p) { all.push_back(numbers(p.gradient())); });
    gr::clear_gradients(net);
    return all;
  };
  CHECK(run(some) == run(x));
}

TEST_CASE("the memory of a step with mixtures is that of its plan, to the byte, with and without regions") {
  const auto check = [](const gr::region_schedule& regions) {
    gr::meta_stream imagined;
    gr::accounting plan;
    step_in<gr::on<gr::meta>>(imagined, plan, regions);
    gr::stream stream;
    gr::host_resource heap;
    gr::stats_resource stats{heap};
    step_in<gr::on<gr::cpu>>(stream, stats, regions);
    CHECK(stats.all().peak == plan.peak_bytes());
  };
  check({});
  check(gr::region_schedule::every_block(layers));
}
