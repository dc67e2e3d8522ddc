// Lesson 2: gradients. A tape records what is computed from the values it watches; backward() unwinds it.

#include <cmath>
#include <cstdio>
#include <gradus/gradus.hpp>

namespace gr = gradus;

// A function is written once. Given plain tensors it computes; given traced values it also records.
auto energy(const auto& x) { return gr::sum(x * x * x); }

int main() {
  gr::stream stream;
  gr::host_resource heap;
  gr::context ctx{stream, heap};
  auto values = gr::from_values<float, gr::shape<3>>(ctx, {1, 2, 3});

  std::printf("f(x)  = %g\n", gr::item(energy(values)));  // nothing is recorded: values are plain

  // variable() wants a gradient; watch() takes part without one (data, say).
  gr::tape tape{ctx};
  auto x = tape.variable(values);
  gr::backward(energy(x));
  const auto& dx = x.gradient();  // 3 x^2
  std::printf("df/dx = [%g %g %g]\n", dx(0), dx(1), dx(2));

  // Parameters belong to no tape: they are the leaves that a model keeps, and gradients accumulate in them.
  gr::param<gr::on<gr::cpu>, 3> w;
  w.set(gr::from_values<float, gr::shape<3>>(ctx, {0.5f, -1, 2}));
  auto loss = [&] { return gr::sum(gr::sigmoid(tape.watch(values) * w)); };
  gr::backward(loss());
  const float slope = w.gradient()(1);

  // The same by hand: how much does the loss change when w(1) does?
  const float step = 1e-2f;
  w.edit()(1) += step;
  const float up = gr::item(loss().value());
  w.edit()(1) -= 2 * step;
  const float down = gr::item(loss().value());
  const float difference = (up - down) / (2 * step);
  std::printf("dL/dw = %.4f, by differences %.4f\n", slope, difference);
  return std::abs(slope - difference) < 1e-3f ? 0 : 1;
}
