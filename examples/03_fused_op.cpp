// Lesson 3: an elementwise operation of your own. Write what happens to one element; the library vectorises it, runs it
// in one pass over memory, and derives its gradient.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <gradus/gradus.hpp>

namespace gr = gradus;

// Mish (Misra 2019): x tanh(log(1 + exp(x))). The functor is generic over its value type: it is called with SIMD packs
// to compute, and with dual numbers to differentiate. The using-declarations find the right exp, log and tanh for each.
struct mish {
  template <class T>
  GRADUS_HD auto operator()(const T& x) const {
    using gr::math::exp, gr::math::log, gr::math::tanh;
    return x * tanh(log(T(1) + exp(x)));
  }
};

// Several arguments fuse as well: one pass instead of three, however long the formula.
struct gated {
  template <class T>
  GRADUS_HD auto operator()(const T& x, const T& gate) const {
    using gr::math::exp;
    return x / (T(1) + exp(-gate));
  }
};

int main() {
  gr::stream stream;
  gr::host_resource heap;
  gr::context ctx{stream, heap};
  gr::tape tape{ctx};

  auto x = tape.variable(gr::from_values<float, gr::shape<4>>(ctx, {-2, -0.5f, 0.5f, 2}));
  auto g = tape.variable(gr::zeros<float, gr::shape<4>>(ctx));
  auto y = gr::map(gated{}, gr::map(mish{}, x), g);
  const auto values = y.value();
  gr::backward(gr::sum(y));

  // With the gate at 0, y is half of mish(x). Compare value and slope with the formula in double precision.
  const auto formula = [](double v) { return 0.5 * v * std::tanh(std::log1p(std::exp(v))); };
  double worst = 0;
  for (int i = 0; i < 4; ++i) {
    const double v = static_cast<double>(x.value()(i));
    const double slope = (formula(v + 1e-5) - formula(v - 1e-5)) / 2e-5;
    const double value_error = static_cast<double>(values(i)) - formula(v);
    const double slope_error = static_cast<double>(x.gradient()(i)) - slope;
    std::printf("x = %5.2f  y = %8.5f  dy/dx = %8.5f\n", v, static_cast<double>(values(i)),
                static_cast<double>(x.gradient()(i)));
    worst = std::max({worst, std::abs(value_error), std::abs(slope_error)});
  }
  std::printf("largest error %.1e\n", worst);
  return worst < 1e-5 ? 0 : 1;
}
