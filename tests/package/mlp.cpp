// A small network, trained on numbers of its own; prints the loss and fails unless it falls.
#include <cstdio>
#include <gradus/gradus.hpp>

namespace gr = gradus;

template <class X>
struct mlp {
  gr::nn::linear<X, 784, 256> hidden;
  gr::nn::linear<X, 256, 10> output;
  GRADUS_MEMBERS(hidden, output)

  constexpr auto operator()(auto x) const { return output(gr::gelu(hidden(std::move(x)))); }
};

int main() {
  gr::stream stream;
  gr::host_resource heap;
  gr::context ctx{stream, heap};
  mlp<gr::on<gr::cpu>> net;
  gr::init(net, ctx, gr::he_normal{.seed = 7});
  gr::adamw optimizer{net, {.lr = 1e-3}};
  gr::tape tape{ctx};
  const auto images = gr::full<float, gr::shape<64, 784>>(ctx, 0.5f);
  const auto labels = gr::full<std::int32_t, gr::shape<64>>(ctx, 3);
  float first = 0, last = 0;
  for (int step = 0; step < 20; ++step) {
    auto loss = gr::cross_entropy(net(tape.watch(images)), labels);
    last = gr::item(loss.value());
    if (step == 0) first = last;
    gr::backward(loss);
    optimizer.step(ctx);
  }
  std::printf("gradus %s: loss %.4f, then %.4f\n", gr::version().data(), first, last);
  return last < first / 2 ? 0 : 1;
}
