#include <doctest/doctest.h>

#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "../../support/operands.hpp"

namespace gr = gradus;
using namespace gradus_test;

namespace {

template <class Precision>
using cpu_of = gr::on<gr::cpu, Precision>;
using X = gr::on<gr::cpu>;

template <class Net>
void start(Net& net, gr::context<gr::cpu>& ctx) {
  gr::init(net, ctx, gr::normal_init{.seed = 5, .stddev = 0.3});
}

}  // namespace

TEST_CASE("the parameters of recurrent layers are named by layer") {
  CHECK(gr::param_names(gr::nn::lstm<X, 3, 4, 2>{}) ==
        std::vector<std::string>{"layers.0.input.weight", "layers.0.input.bias", "layers.0.hidden",
                                 "layers.1.input.weight", "layers.1.input.bias", "layers.1.hidden"});
  CHECK(gr::param_names(gr::nn::gru<X, 3, 4>{}) ==
        std::vector<std::string>{"layers.0.input.weight", "layers.0.input.bias", "layers.0.hidden.weight",
                                 "layers.0.hidden.bias"});
}

TEST_CASE("layers of lstm and gru read one another, with dropout between them where they are recorded") {
  workplace at;
  const auto x = normal<float, gr::shape<2, 5, 3>>(at.ctx);
  gr::nn::lstm<X, 3, 4, 2> net;
  start(net, at.ctx);
  const auto& [first, second] = net.layers;
  const auto inner = gr::lstm(first.input(x), first.hidden);
  const auto y = gr::lstm(second.input(inner), second.hidden);
  CHECK(same_bits(net(x), y));
  CHECK(same_bits(net(x, {.dropout = 0.5}), y));
  gr::tape tape{at.ctx};
  CHECK(same_bits(net(tape.watch(x)).value(), y));
  CHECK(!same_bits(net(tape.watch(x), {.dropout = 0.5}).value(), y));
}

TEST_CASE("recurrent layers continue a sequence, step by step, with the bits of one call, in every precision") {
  const auto check = []<class Net>(std::type_identity<Net>) {
    workplace at;
    Net net;
    start(net, at.ctx);
    const auto x = normal<float, gr::shape<2, 3, 3>>(at.ctx);
    const auto y = net(x);
    auto state = net.template zero_state<2>(at.ctx);
    for (gr::index_t t = 0; t < 3; ++t) {
      auto [now, next] = net(gr::slice<1, 1>(x, t), state);
      CHECK(same_bits(now, gr::slice<1, 1>(y, t)));
      state = next;
    }
  };
  check(std::type_identity<gr::nn::lstm<X, 3, 4, 2>>{});
  check(std::type_identity<gr::nn::gru<X, 3, 4, 2>>{});
  check(std::type_identity<gr::nn::lstm<cpu_of<gr::bf16_mixed>, 3, 4>>{});
  check(std::type_identity<gr::nn::gru<cpu_of<gr::fp16_mixed>, 3, 4>>{});
}

TEST_CASE("a detached state ends the gradient, and one that is not carries it to the earlier part") {
  workplace at;
  gr::nn::lstm<X, 3, 4> net;
  start(net, at.ctx);
  const auto x = normal<float, gr::shape<2, 3, 3>>(at.ctx);
  const auto later = normal<float, gr::shape<2, 3, 3>>(at.ctx);
  const auto gradient = [&](bool detached) {
    gr::tape tape{at.ctx};
    const auto v = tape.variable(x);
    const auto [y, state] = net(v, net.zero_state<2>(at.ctx));
    if (detached) gr::backward(gr::sum(net(tape.watch(later), gr::detach(state)).first));
    else gr::backward(gr::sum(net(tape.watch(later), state).first));
    return static_cast<bool>(v.gradient());
  };
  CHECK(!gradient(true));
  CHECK(gradient(false));
}

TEST_CASE("recurrent layers train with every policy") {
  const auto check = []<class Net>(std::type_identity<Net>) {
    workplace at;
    Net net;
    start(net, at.ctx);
    gr::adamw optimizer{net, {.lr = 1e-2}};
    gr::tape tape{at.ctx};
    const auto x = normal<float, gr::shape<4, 6, 3>>(at.ctx);
    float first = 0, last = 0;
    for (int step = 0; step < 20; ++step) {
      auto y = net(tape.watch(x));
      auto loss = gr::mean((y - 0.5f) * (y - 0.5f));
      last = static_cast<float>(gr::item(loss.value()));
      if (step == 0) first = last;
      gr::backward(loss);
      optimizer.step(at.ctx);
      optimizer.clear_gradients();
    }
    CHECK(last < 0.8f * first);
  };
  check(std::type_identity<gr::nn::lstm<X, 3, 4>>{});
  check(std::type_identity<gr::nn::lstm<cpu_of<gr::bf16_pure>, 3, 4>>{});
  check(std::type_identity<gr::nn::gru<cpu_of<gr::bf16_mixed>, 3, 4>>{});
  check(std::type_identity<gr::nn::gru<cpu_of<gr::bf16_gradients>, 3, 4>>{});
}

namespace {
template <class P>
constexpr void step_of(gr::context<typename P::device>& ctx) {
  gr::nn::lstm<P, 8, 6, 2> encoder;
  gr::nn::gru<P, 6, 5> decoder;
  gr::init(encoder, ctx, gr::normal_init{});
  gr::init(decoder, ctx, gr::normal_init{});
  gr::tape tape{ctx};
  auto x = gr::zeros<float, gr::shape<4, 7, 8>>(ctx);
  auto [y, state] = encoder(tape.watch(std::move(x)), encoder.template zero_state<4>(ctx), {.dropout = 0.1});
  auto loss = gr::sum(decoder(std::move(y)));
  gr::backward(std::move(loss) + gr::sum(state.c));
}
template <class Precision>
constexpr std::size_t planned_bytes() {
  gr::meta_stream stream;
  gr::accounting memory;
  gr::context ctx{stream, memory};
  step_of<gr::on<gr::meta, Precision>>(ctx);
  return memory.peak_bytes();
}
}  // namespace

TEST_CASE("the compiler measures the peak of a step of recurrent layers to the byte") {
  const auto check = []<class Precision>(Precision) {
    constexpr std::size_t planned = planned_bytes<Precision>();
    workplace at;
    step_of<cpu_of<Precision>>(at.ctx);
    CHECK(at.stats.all().peak == planned);
  };
  check(gr::fp32{});
  check(gr::bf16_mixed{});
}
