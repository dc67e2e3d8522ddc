// Lesson 5: an operation whose gradient you know better than the library. Two functions on plain tensors: what it
// computes, and what the gradient of its operand is.

#include <cstdio>
#include <gradus/gradus.hpp>

namespace gr = gradus;

// Rounding has slope 0 almost everywhere, so no gradient passes through it. The straight-through estimator
// (Bengio et al.
// 2013) rounds on the way forward, and passes the gradient back as if it had not.
struct nearest {
  template <class T>
  GRADUS_HD auto operator()(const T& v) const {
    return (v + T(12582912.0f)) - T(12582912.0f);  // 1.5 * 2^23: a float this large has no fraction bits left
  }
};

auto round_straight_through(const auto& x) {
  return gr::custom_op([](const auto& v) { return gr::map(nearest{}, v); },
                       [](const auto& gradient, const auto& /*output*/, const auto& /*v*/) { return gradient; }, x);
}

int main() {
  gr::stream stream;
  gr::host_resource heap;
  gr::context ctx{stream, heap};
  gr::tape tape{ctx};

  // Which whole number is nearest to a target? Gradient descent on a value that is rounded before it is compared.
  auto target = gr::full<float, gr::shape<1>>(ctx, 7.3f);
  auto value = gr::zeros<float, gr::shape<1>>(ctx);
  for (int step = 0; step < 40; ++step) {
    auto x = tape.variable(value);
    auto difference = round_straight_through(x) - target;
    gr::backward(gr::sum(difference * difference));
    value = value - x.gradient() * 0.05f;
    if (step % 10 == 9)
      std::printf("step %2d  x = %.3f  rounded %g\n", step + 1, value(0), round_straight_through(value)(0));
  }
  return round_straight_through(value)(0) == 7.0f || round_straight_through(value)(0) == 8.0f ? 0 : 1;
}
