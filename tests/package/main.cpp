// What a first program of a user's does: include everything, make a tensor, look at it, and fit one number.
#include <gradus/gradus.hpp>
#include <iostream>

namespace gr = gradus;

int main() {
  gr::stream stream;
  gr::host_resource heap;
  gr::context ctx{stream, heap};
  auto x = gr::full<float, gr::shape<2, 3>>(ctx, 0.5f);
  std::cout << x << "\n";

  gr::param<gr::on<gr::cpu>, 3, 1> w;
  w.set(gr::zeros<float, gr::shape<3, 1>>(ctx));
  gr::tape tape{ctx};
  float loss = 0;
  for (int step = 0; step < 50; ++step) {  // x w should become 1
    const auto error = gr::linear(tape.watch(x), w) - 1.0;
    const auto squared = gr::mean(error * error);
    loss = gr::item(squared.value());
    gr::backward(squared);
    w.set(w.value() - w.gradient() * 0.5);
    w.clear_gradient();
  }
  std::cout << "loss " << loss << ", w " << w << "\n";
  return x(1, 2) == 0.5f && loss < 1e-6f ? 0 : 1;
}
