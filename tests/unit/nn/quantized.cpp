// Weights of linear layers in 8 bits, and models of adapters on them.
#include <doctest/doctest.h>

#include <gradus/gradus.hpp>
#include <gradus/nn/quantized.hpp>
#include <gradus/planning.hpp>
#include <gradus/train/model_training.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "../../support/operands.hpp"

namespace gr = gradus;
using gradus_test::workplace;

namespace {

template <class P, class D = gr::cpu>
using Int8 = gr::nn::adapted<D, P, 3, gr::nn::base_storage::int8>;
template <class P>
using Frozen = gr::on<gr::cpu, gr::frozen<P>>;

template <class T, class S>
gr::tensor<T, S, gr::cpu> drawn(gr::context<gr::cpu>& ctx, std::uint64_t seed, double most = 1) {
  return gr::uniform<T, S>(ctx, gr::random_key{seed}, -most, most);
}

}  // namespace

TEST_CASE("an element of a weight in 8 bits differs by half a step of its block at most") {
  workplace at;
  gr::nn::quantized_weight<Frozen<gr::fp32>, 3, 128> w;
  gr::init(w, at.ctx, gr::normal_init{});
  for (const float v : gr::to_host(w.values())) CHECK(v == 0);
  auto given = drawn<float, gr::shape<3, 128>>(at.ctx, 7, 0.3);
  float* const elements = given.data();
  std::fill_n(elements + 64, 64, 0.0f);                     // a block of zeros
  for (int i = 0; i < 64; ++i) elements[128 + i] = 1e-42f;  // subnormal
  for (int i = 0; i < 64; ++i) elements[192 + i] = 3e38f / static_cast<float>(i + 1);
  elements[256] = -1;    // the largest magnitude
  elements[320] = 1e6f;  // an outlier
  w.set(given);
  const auto found = gr::to_host(w.values());
  const auto scales = gr::to_host(w.scales.value());
  const auto codes = gr::to_host(w.codes.value());
  for (std::size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i);
    const float wanted = elements[i], scale = scales[i / 64];
    float top = 0;
    for (std::size_t k = i / 64 * 64; k < i / 64 * 64 + 64; ++k) top = std::max(top, std::abs(elements[k]));
    CHECK(scale == top / 127);
    CHECK(found[i] == static_cast<float>(static_cast<std::int8_t>(codes[i])) * scale);
    if (top > 1e-35f) CHECK(std::abs(found[i] - wanted) <= 0.50001f * scale);
    else CHECK(found[i] == 0);
  }
  CHECK(static_cast<std::int8_t>(codes[256]) == -127);
  elements[5] = std::numeric_limits<float>::infinity();
  elements[70] = std::numeric_limits<float>::quiet_NaN();
  w.set(given);
  const auto broken = gr::to_host(w.values());
  for (std::size_t i = 0; i < 128; ++i) CHECK(std::isnan(broken[i]));
  CHECK(broken[128 + 64] == doctest::Approx(3e38f));
}

TEST_CASE_TEMPLATE("a product with a weight in 8 bits has the bits of one with its elements", P, gr::fp32,
                   gr::bf16_mixed, gr::fp64) {
  workplace at;
  gr::nn::quantized_weight<Frozen<P>, 96, 128> w;
  gr::param<Frozen<P>, 96, 128> same;
  gr::param<gr::on<gr::cpu, P>, 128> bias;
  gr::init(w, at.ctx, gr::normal_init{});
  w.set(drawn<float, gr::shape<96, 128>>(at.ctx, 5));
  same.set(w.values());
  bias.set(drawn<typename P::store, gr::shape<128>>(at.ctx, 6));
  using C = typename P::store;
  const auto x = drawn<C, gr::shape<3, 17, 96>>(at.ctx, 8);
  const auto of_y = drawn<C, gr::shape<3, 17, 128>>(at.ctx, 9);
  const auto check = [&](const auto& f) {
    const auto of = [&](const auto& weight) {
      gr::tape tape{at.ctx};
      const auto input = tape.variable(x);
      const auto y = f(input * C(2), weight);
      CHECK(gr::to_host(f(x * C(2), weight)) == gr::to_host(y.value()));  // without a tape
      gr::backward(gr::sum(gr::cast<C>(y) * of_y));
      auto of_bias = bias.gradient() ? gr::to_host(bias.gradient()) : std::vector<C>();
      bias.clear_gradient();
      return std::tuple{gr::to_host(gr::cast<double>(y.value())), gr::to_host(input.gradient()), std::move(of_bias)};
    };
    CHECK(of(w) == of(same));
  };
  check([](const auto& from, const auto& weight) { return gr::linear(from, weight); });
  check([&](const auto& from, const auto& weight) { return gr::linear(from, weight, bias); });
  check([&](const auto& from, const auto& weight) {  // gradients add up
    return gr::linear(from, weight, bias) + gr::linear(from, weight, bias);
  });
}

TEST_CASE("a layer of adapters has its weight in 8 bits, 1.0625 bytes an element, if its columns fill blocks") {
  using wide = gr::nn::linear<Int8<gr::bf16_mixed>, 5, 64>;
  using narrow = gr::nn::linear<Int8<gr::bf16_mixed>, 64, 5>;
  CHECK(std::is_same_v<decltype(narrow::weight), gr::param<Int8<gr::bf16_mixed>, 64, 5>>);
  workplace at;
  gr::nn::linear<Int8<gr::bf16_mixed>, 96, 128> layer;
  const std::size_t before = at.stats.all().live;
  gr::init(layer.weight, at.ctx, gr::normal_init{});
  CHECK(at.stats.all().live - before == 96 * 128 + 96 * 2 * sizeof(float));
  CHECK(gr::param_names(wide{}) == std::vector<std::string>{"bias"});
  layer.adapter.emplace();
  std::vector<std::string> of_files, of_checkpoints, weights;
  gr::for_each_tensor(layer, [&](std::string_view name, auto&) { of_files.emplace_back(name); });
  gr::for_each_trained_tensor(layer, [&](std::string_view name, auto&) { of_checkpoints.emplace_back(name); });
  gr::nn::for_each_quantized(layer, [&](std::string_view name, auto&) { weights.emplace_back(name); });
  CHECK(of_files == std::vector<std::string>{"weight.codes", "weight.scales", "bias", "adapter.a", "adapter.b"});
  CHECK(of_checkpoints == std::vector<std::string>{"adapter.a", "adapter.b"});
  CHECK(weights == std::vector<std::string>{"weight"});
}

namespace {

template <class D, class P>
using block = gr::nn::llama_block<Int8<P, D>, 64, 2, 1, 128>;
template <class D, class P>
struct stack {
  std::array<block<D, P>, 3> blocks;
  gr::region_schedule regions;
  GRADUS_MEMBERS(blocks)
  constexpr auto operator()(auto x) const {
    return gr::chain(blocks, std::move(x), regions, [](const auto& one, auto v) { return one(v); });
  }
};

template <class D, class P>
class stack_training : public gr::model_training<stack<D, P>, D, P, gr::adamw> {
  using base = gr::model_training<stack<D, P>, D, P, gr::adamw>;

 public:
  stack_training(gr::context<D>& persistent, gr::context<D>& transient, const gr::training_options& o)
      : base(persistent, transient, o, nullptr, gr::normal_init{.stddev = 0.2}) {}
  void backward(int i) {
    auto x = gr::full<float, gr::shape<2, 16, 64>>(this->transient_, 0.5f, gr::category::input);
    this->begin_batch(i);
    const auto y = this->net(this->tape().watch(x));
    this->add_gradients(i, gr::mean(y * y));
  }
  void step() { gr::take_step(*this); }
};

gr::training_options options_of(bool checkpointed) {
  gr::training_options o;
  o.adapted_layers = {"blocks.1.mlp.down", "blocks.2.attention.query", "blocks.0.attention.value"};
  if (checkpointed) o.regions = gr::region_schedule::every_block(3);
  return o;
}

}  // namespace

TEST_CASE_TEMPLATE("a planned step on a base in 8 bits is the measured one, to the byte", P, gr::fp32, gr::bf16_mixed) {
  for (const bool checkpointed : {false, true}) {
    CAPTURE(checkpointed);
    const auto o = options_of(checkpointed);
    const gr::step_summary planned = gr::summarize(gr::trace_step<stack_training<gr::meta, P>>(o));
    gr::stream stream;
    gr::host_resource heap;
    gr::stats_resource stats{heap};
    gr::context<gr::cpu> persistent{stream, stats}, transient{stream, stats};
    stack_training<gr::cpu, P> t(persistent, transient, o);
    gr::nn::for_each_quantized(
        t.net, [&]<class W>(std::string_view, W& w) { w.set(drawn<float, typename W::shape>(persistent, 3, 0.3)); });
    t.step();
    stats.reset_peak();
    t.step();
    CHECK(stats.all().peak == planned.peak_bytes);
  }
}

TEST_CASE("no copy of a weight in 8 bits lives between forward and backward") {
  workplace at;
  gr::nn::quantized_weight<Frozen<gr::fp32>, 256, 512> w;
  gr::init(w, at.ctx, gr::normal_init{});
  gr::tape tape{at.ctx};
  const auto x = tape.variable(gr::full<float, gr::shape<2, 256>>(at.ctx, 1.0f));
  const auto before = at.stats.all().live;
  at.stats.reset_peak();
  const auto y = gr::linear(x, w);
  CHECK(at.stats.all().live - before == y.value().bytes);
  CHECK(at.stats.all().peak - before == y.value().bytes + 256 * 512 * sizeof(float));
  const auto loss = gr::sum(y);
  at.stats.reset_peak();
  gr::backward(loss);
  CHECK(at.stats.all().peak - before >= 256 * 512 * sizeof(float));
  CHECK(at.stats.all().live - before < 256 * 512 * sizeof(float));
}

TEST_CASE("adapters on a base in 8 bits learn, and the base stays as it is") {
  workplace at;
  gr::nn::linear<Int8<gr::bf16_mixed>, 32, 64> layer;
  gr::nn::add_adapters(layer, [](std::string_view) { return true; });
  gr::init(layer, at.ctx, gr::normal_init{.stddev = 0.5});
  layer.weight.set(drawn<float, gr::shape<32, 64>>(at.ctx, 4));
  const auto before = gr::to_host(layer.weight.codes.value());
  const auto x = drawn<float, gr::shape<6, 32>>(at.ctx, 9);
  gr::adamw optimizer{layer, {.lr = 1e-2}};
  gr::tape tape{at.ctx};
  float first = 0, last = 0;
  for (int step = 0; step < 30; ++step) {
    const auto y = gr::cast<float>(layer(tape.watch(x)));
    auto loss = gr::mean(y * y);
    last = gr::item(loss.value());
    if (step == 0) first = last;
    gr::backward(loss);
    optimizer.step(at.ctx);
  }
  CHECK(last < 0.8f * first);
  CHECK(gr::to_host(layer.weight.codes.value()) == before);
}
