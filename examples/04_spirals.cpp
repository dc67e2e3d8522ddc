// Lesson 4: training. A small network learns to tell two spirals apart.

#include <cmath>
#include <cstdio>
#include <gradus/gradus.hpp>

namespace gr = gradus;

// A model is a plain struct whose GRADUS_MEMBERS line names its parameters. X is their device and precision.
template <class X>
struct classifier {
  gr::param<X, 2, 32> w1;
  gr::param<X, 32> b1;
  gr::param<X, 32, 32> w2;
  gr::param<X, 32> b2;
  gr::param<X, 32, 2> w3;
  gr::param<X, 2> b3;
  GRADUS_MEMBERS(w1, b1, w2, b2, w3, b3)

  auto operator()(const auto& x) const {  // training and inference alike
    auto h = gr::tanh(gr::linear(x, w1, b1));
    h = gr::tanh(gr::linear(h, w2, b2));
    return gr::linear(h, w3, b3);
  }
};

constexpr gr::index_t points = 400;

int main() {
  gr::stream stream;
  gr::host_resource heap;
  gr::context ctx{stream, heap};

  // Two arms, half a turn apart; every other point belongs to the second.
  auto places = gr::empty<float, gr::shape<points, 2>>(ctx);
  auto arms = gr::empty<std::int32_t, gr::shape<points>>(ctx);
  for (gr::index_t i = 0; i < points; ++i) {
    const int arm = i % 2;
    const float radius = 0.1f + 0.9f * static_cast<float>(i) / points;
    const float angle = 9.0f * radius + 3.14159265f * static_cast<float>(arm);
    places(i, 0) = 2 * radius * std::cos(angle);
    places(i, 1) = 2 * radius * std::sin(angle);
    arms(i) = arm;
  }

  classifier<gr::on<gr::cpu>> net;
  gr::init(net, ctx, gr::xavier_normal{.seed = 7});
  gr::adamw optimizer{net, {.lr = 1e-2, .weight_decay = 0}};
  gr::tape tape{ctx};
  for (int step = 1; step <= 1000; ++step) {
    auto loss = gr::cross_entropy(net(tape.watch(places)), arms);
    if (step % 200 == 0) std::printf("step %4d  loss %.4f\n", step, gr::item(loss.value()));
    gr::backward(loss);
    optimizer.step(ctx);
  }

  // Plain tensors in, plain tensors out: no tape, nothing recorded.
  const auto logits = net(places);
  int right = 0;
  for (gr::index_t i = 0; i < points; ++i) right += (logits(i, 1) > logits(i, 0)) == (arms(i) == 1);
  const double accuracy = static_cast<double>(right) / points;
  std::printf("accuracy %.3f\n", accuracy);
  return accuracy >= 0.95 ? 0 : 1;
}
