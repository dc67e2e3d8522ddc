// The training of train.c in C++, without the C functions: the losses have the same bits.
#include <cstdio>

#include "darts.h"
#include "rings.hpp"

int main() {
  gr::stream stream;
  gr::host_resource heap;
  gr::context ctx{stream, heap};
  ring_classifier<gr::on<gr::cpu>> net;
  gr::init(net, ctx, gr::he_normal{.seed = 7});
  gr::adamw optimizer{net, {.lr = 1e-2}};
  gr::tape tape{ctx};
  for (std::uint32_t i = 1; i <= steps + 1; ++i) {
    auto places = gr::empty<float, gr::shape<batch, 2>>(ctx);
    auto rings = gr::empty<std::int32_t, gr::shape<batch>>(ctx);
    throw_darts(i * batch, batch, places.data(), rings.data());
    const auto loss = gr::cross_entropy(net(tape.watch(places)), rings);
    if (i % 100 == 0 || i > steps) std::printf("step %u loss %.13a\n", i, static_cast<double>(gr::item(loss.value())));
    gr::backward(loss);
    optimizer.step(ctx);
  }
}
