// The two-layer MLP trainer whose compile time bench/compile measures; with SECOND_BATCH_SIZE, it trains at two sizes,
// with BOUNDED_BATCH its batch has up to 64 rows, known at run time.
#include <cstdint>
#include <cstdio>

#include <gradus/gradus.hpp>

namespace gr = gradus;

template <class X>
struct mlp {
  gr::param<X, 784, 256> w1;
  gr::param<X, 256> b1;
  gr::param<X, 256, 10> w2;
  gr::param<X, 10> b2;
  GRADUS_MEMBERS(w1, b1, w2, b2)

  constexpr auto operator()(auto x) const { return gr::linear(gr::gelu(gr::linear(x, w1, b1)), w2, b2); }
};

template <gr::index_t batch>
void train() {
  gr::stream stream;
  gr::host_resource heap;
  gr::context ctx{stream, heap};
  mlp<gr::on<gr::cpu>> net;
  gr::init(net, ctx, gr::he_normal{.seed = 7});
  gr::adamw optimizer{net, {.lr = 1e-3}};
  gr::tape tape{ctx};
#if defined(BOUNDED_BATCH)
  const auto images = gr::ones<float, gr::shape<gr::upto<batch>, 784>>(ctx, batch);
  const auto labels = gr::zeros<std::int32_t, gr::shape<gr::upto<batch>>>(ctx, batch);
#else
  const auto images = gr::ones<float, gr::shape<batch, 784>>(ctx);
  const auto labels = gr::zeros<std::int32_t, gr::shape<batch>>(ctx);
#endif
  for (int step = 0; step < 10; ++step) {
    const auto loss = gr::cross_entropy(net(tape.watch(images)), labels);
    gr::backward(loss);
    optimizer.step(ctx);
    std::printf("%g\n", static_cast<double>(gr::item(loss.value())));
  }
}

int main() {
  train<64>();
#if defined(SECOND_BATCH_SIZE)
  train<48>();
#endif
}
