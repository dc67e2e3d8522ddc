#include <doctest/doctest.h>

#include <gradus/gradus.hpp>
#include <gradus/nn/adapter.hpp>
#include <gradus/planning.hpp>
#include <gradus/train/model_training.hpp>

#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "../../support/message_of.hpp"

namespace gr = gradus;

namespace {

template <class P, class D = gr::cpu>
using X = gr::nn::adapted<D, P, 3>;
constexpr auto all = [](std::string_view) { return true; };

struct workplace {
  gr::stream stream;
  gr::host_resource heap;
  gr::stats_resource stats{heap};
  gr::context<gr::cpu> ctx{stream, stats};
};

template <class Place>
struct two_layers {
  gr::nn::linear<Place, 5, 7> first;
  gr::nn::rms_norm<Place, 7> norm;
  gr::nn::linear_without_bias<Place, 7, 4> second;
  GRADUS_MEMBERS(first, norm, second)
  constexpr auto operator()(const auto& x) const { return second(norm(gr::tanh(first(x)))); }
};

// Gives b values, without which a has no gradient.
void fill_adapters(auto& net, gr::context<gr::cpu>& ctx, std::uint32_t seed) {
  gr::visit_trained(net, [&]<class P>(P& p) {
    p.set(gr::uniform<typename P::value_type, typename P::shape>(ctx, gr::random_key{seed++}, -0.7, 0.7));
  });
}

}  // namespace

TEST_CASE("a model of adapters has the trained parameters of its adapters alone") {
  two_layers<X<gr::fp32>> net;
  CHECK(gr::trained_names(net).empty());
  CHECK(gr::nn::add_adapters(net, [](std::string_view name) { return name == "second"; }) == 1);
  CHECK(gr::trained_names(net) == std::vector<std::string>{"second.adapter.a", "second.adapter.b"});
  CHECK(gr::param_names(net) == std::vector<std::string>{"first.weight", "first.bias", "norm.weight", "second.weight",
                                                         "second.adapter.a", "second.adapter.b"});
  CHECK(gr::param_names(two_layers<gr::on<gr::cpu>>()).size() == 4);
}

TEST_CASE("frozen parameters are stored in the compute type, adapters as the policy says") {
  using wide = gr::nn::linear<X<gr::bf16_mixed>, 5, 7>;
  CHECK(std::is_same_v<decltype(wide::weight)::value_type, gr::bf16>);
  CHECK(std::is_same_v<decltype(decltype(wide::adapter)::value_type::a)::value_type, float>);
}

TEST_CASE("a new adapter adds nothing, and then x a b by its scale") {
  workplace at;
  two_layers<X<gr::fp64>> net;
  gr::nn::add_adapters(net, all, {.alpha = 6});
  gr::init(net, at.ctx, gr::normal_init{.stddev = 0.5});
  const auto x = gr::uniform<double, gr::shape<6, 5>>(at.ctx, gr::random_key{9}, -1, 1);
  const auto plain = gr::linear(x, net.first.weight.value(), net.first.bias.value());
  CHECK(gr::to_host(net.first(x)) == gr::to_host(plain));
  fill_adapters(net, at.ctx, 3);
  const auto& adapter = *net.first.adapter;
  CHECK(adapter.scale() == 2);
  const auto wanted = plain + gr::matmul(gr::matmul(x, adapter.a.value()), adapter.b.value()) * 2.0;
  const auto found = gr::to_host(net.first(x)), expected = gr::to_host(wanted);
  for (std::size_t i = 0; i < found.size(); ++i) CHECK(found[i] == doctest::Approx(expected[i]));
  net.first.adapter->settings.rank_stabilized = true;
  CHECK(net.first.adapter->scale() == doctest::Approx(6 / std::sqrt(3.0)));
}

TEST_CASE("a's deviation is that of PEFT's start") {
  workplace at;
  gr::nn::linear<gr::nn::adapted<gr::cpu, gr::fp32, 64>, 300, 1> layer;
  layer.adapter.emplace();
  gr::init(layer, at.ctx, gr::normal_init{});
  double squares = 0;
  for (const float v : layer.adapter->a.value().values()) squares += static_cast<double>(v) * static_cast<double>(v);
  CHECK(std::sqrt(squares / (300 * 64)) == doctest::Approx(1 / std::sqrt(3.0 * 300)).epsilon(0.03));
  for (const float v : layer.adapter->b.value().values()) CHECK(v == 0);
}

TEST_CASE("gradients of adapters are those of central differences") {
  workplace at;
  two_layers<X<gr::fp64>> net;
  gr::nn::add_adapters(net, all);
  gr::init(net, at.ctx, gr::normal_init{.stddev = 0.5});
  fill_adapters(net, at.ctx, 5);
  const auto x = gr::uniform<double, gr::shape<6, 5>>(at.ctx, gr::random_key{9}, -1, 1);
  const auto w = gr::uniform<double, gr::shape<6, 4>>(at.ctx, gr::random_key{8}, -1, 1);
  const auto loss = [&](const auto& from) { return gr::sum(net(from) * w); };
  gr::tape tape{at.ctx};
  gr::backward(loss(tape.watch(x)));
  gr::for_each_trained(net, [&](std::string_view name, auto& p) {
    CAPTURE(std::string(name));
    const auto gradient = gr::to_host(p.gradient());
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      double& value = p.edit().data()[i];
      const double kept = value, h = 1e-5;
      value = kept + h;
      const double above = gr::item(loss(x));
      value = kept - h;
      const double below = gr::item(loss(x));
      value = kept;
      CHECK(gradient[i] == doctest::Approx((above - below) / (2 * h)).epsilon(1e-6));
    }
  });
}

namespace {

template <class Place>
struct stack {
  std::array<gr::nn::linear<Place, 16, 16>, 4> blocks;
  gr::region_schedule regions;
  GRADUS_MEMBERS(blocks)
  constexpr auto operator()(auto x) const {
    return gr::chain(blocks, std::move(x), regions, [](const auto& block, auto v) { return gr::tanh(block(v)); });
  }
};

template <class D>
class stack_training : public gr::model_training<stack<X<gr::fp32, D>>, D, gr::fp32, gr::adamw> {
  using base = gr::model_training<stack<X<gr::fp32, D>>, D, gr::fp32, gr::adamw>;

 public:
  stack_training(gr::context<D>& persistent, gr::context<D>& transient, const gr::training_options& o)
      : base(persistent, transient, o, nullptr, gr::normal_init{.stddev = 0.2}) {}
  void backward(int i) {
    auto x = gr::full<float, gr::shape<32, 16>>(this->transient_, 0.5f, gr::category::input);
    this->begin_batch(i);
    const auto y = this->net(this->tape().watch(x));
    this->add_gradients(i, gr::mean(y * y));
  }
  void step() { gr::take_step(*this); }
};

gr::training_options options_of(std::vector<std::string> layers, bool checkpointed) {
  gr::training_options o;
  o.adapted_layers = std::move(layers);
  if (checkpointed) o.regions = gr::region_schedule::every_block(4);
  return o;
}

}  // namespace

TEST_CASE("what is below the lowest adapter has no backward, and keeps nothing; with and without checkpoint regions") {
  for (const bool checkpointed : {false, true}) {
    CAPTURE(checkpointed);
    const auto products = [&](const gr::training_options& o, gr::phase in) {
      std::size_t count = 0;
      for (const gr::op_span& op : gr::trace_step<stack_training<gr::meta>>(o).ops)
        count += op.what.name == "linear" && op.what.phase == in ? 1 : 0;
      return count;
    };
    const auto of_last = options_of({"blocks.3"}, checkpointed),
               of_all = options_of({"blocks.0", "blocks.1", "blocks.2", "blocks.3"}, checkpointed);
    CHECK(products(of_last, gr::phase::backward) == 0);  // x of the last block is a constant
    CHECK(products(of_all, gr::phase::backward) == 3);   // that of the first block is
    CHECK(products(of_last, gr::phase::recompute) == (checkpointed ? 1 : 0));
    CHECK(products(of_all, gr::phase::recompute) == (checkpointed ? 4 : 0));
  }
}

TEST_CASE("a product with a frozen weight keeps no input for backward") {
  workplace at;
  using Frozen = gr::on<gr::cpu, gr::frozen<gr::fp32>>;
  gr::param<Frozen, 64, 8> constant;
  gr::param<gr::on<gr::cpu>, 64, 8> learning, by_call;
  for (auto* p : {&learning, &by_call}) gr::init(*p, at.ctx, gr::normal_init{});
  gr::init(constant, at.ctx, gr::normal_init{});
  by_call.freeze();
  const auto kept = [&](const auto& weight) {
    gr::tape tape{at.ctx};
    auto x = tape.variable(gr::full<float, gr::shape<100, 64>>(at.ctx, 1.0f));
    const auto before = at.stats.all().live;
    const auto y = gr::matmul(x * 2.0, weight);
    const auto bytes = at.stats.all().live - before - y.value().bytes;
    gr::backward(gr::sum(y));
    return bytes;
  };
  CHECK(kept(constant) == kept(by_call));
  CHECK(kept(learning) == kept(constant) + 100 * 64 * sizeof(float));
}

TEST_CASE("a planned step of adapters is the measured one, to the byte") {
  for (const bool checkpointed : {false, true}) {
    const auto o = options_of({"blocks.1", "blocks.2"}, checkpointed);
    const gr::step_summary planned = gr::summarize(gr::trace_step<stack_training<gr::meta>>(o));
    gr::stream stream;
    gr::host_resource heap;
    gr::stats_resource stats{heap};
    gr::context<gr::cpu> persistent{stream, stats}, transient{stream, stats};
    stack_training<gr::cpu> t(persistent, transient, o);
    t.step();
    stats.reset_peak();
    t.step();
    CHECK(stats.all().peak == planned.peak_bytes);
  }
}

TEST_CASE("frozen parameters stay as they are, with the bits of a plain model, and adapters learn") {
  workplace at;
  two_layers<X<gr::fp32>> net;
  gr::nn::add_adapters(net, all);
  gr::init(net, at.ctx, gr::normal_init{.stddev = 0.5});
  const auto before = gr::to_host(net.first.weight.value());
  const auto x = gr::uniform<float, gr::shape<6, 5>>(at.ctx, gr::random_key{9}, -1, 1);
  gr::adamw optimizer{net, {.lr = 1e-2, .weight_decay = 0.1}};
  gr::tape tape{at.ctx};
  float first = 0, last = 0;
  for (int step = 0; step < 30; ++step) {
    const auto y = net(tape.watch(x));
    auto loss = gr::mean(y * y);
    last = gr::item(loss.value());
    if (step == 0) first = last;
    gr::backward(loss);
    optimizer.step(at.ctx);
  }
  CHECK(last < 0.8f * first);
  CHECK(gr::to_host(net.first.weight.value()) == before);
}
