// The code of docs/guide/derivatives.md.
#include <doctest/doctest.h>

#include <cmath>
#include <gradus/gradus.hpp>
#include <numbers>
#include <vector>

namespace gr = gradus;

// [jet]
template <class V, class D = V>
struct jet {  // a value u(x), and its first and second derivative by x
  V u;
  D x, xx;
};
template <class V, class D>
jet(V, D, D) -> jet<V, D>;
// A linear layer maps derivatives as it maps values, without the bias.
template <class V, class D>
auto through(const auto& layer, const jet<V, D>& j) {
  return jet{layer(j.u), gr::linear(j.x, layer.weight), gr::linear(j.xx, layer.weight)};
}
// The chain rule: (tanh u)' = s u', (tanh u)'' = s (u'' - 2 tanh(u) u'^2), where s = 1 - tanh(u)^2.
auto tanh_of(const auto& j) {
  const auto a = gr::tanh(j.u);
  const auto slope = 1.0 - a * a;
  return jet{a, slope * j.x, slope * (j.xx - 2.0 * a * j.x * j.x)};
}
// [/jet]

// [net]
template <class X>
struct wave {
  gr::nn::linear<X, 1, 16> first;
  gr::nn::linear<X, 16, 16> second;
  gr::nn::linear<X, 16, 1> last;
  GRADUS_MEMBERS(first, second, last)

  auto operator()(const auto& x) const { return last(gr::tanh(second(gr::tanh(first(x))))); }
  auto with_derivatives(const auto& j) const {
    return through(last, tanh_of(through(second, tanh_of(through(first, j)))));
  }
};
// [/net]

TEST_CASE("the guide's Taylor mode: derivatives are right, and a net learns sin from u'' = -u") {
  gr::stream stream;
  gr::host_resource heap;
  gr::pool_resource pool(heap);
  gr::context ctx{stream, pool};
  using X = gr::on<gr::cpu, gr::fp64>;
  wave<X> net;
  gr::init(net, ctx, gr::xavier_normal{.seed = 3});
  {  // beside differences of second order
    const double h = 1e-4;
    const auto value = [&](double x) { return gr::item(net(gr::from_values<double, gr::shape<1, 1>>(ctx, {x}))); };
    const auto x = gr::from_values<double, gr::shape<1, 1>>(ctx, {0.7});
    const auto one = gr::ones<double, gr::shape<1, 1>>(ctx);
    const auto j = net.with_derivatives(jet{x, one, one * 0.0});
    CHECK(gr::item(j.u) == value(0.7));
    CHECK(gr::item(j.x) == doctest::Approx((value(0.7 + h) - value(0.7 - h)) / (2 * h)).epsilon(1e-6));
    CHECK(gr::item(j.xx) ==
          doctest::Approx((value(0.7 + h) - 2 * value(0.7) + value(0.7 - h)) / (h * h)).epsilon(1e-5));
  }
  gr::adamw optimizer{net, {.lr = 5e-3, .weight_decay = 0}};
  gr::tape tape{ctx};
  double first = 0, last = 0;
  for (unsigned step = 0; step < 300; ++step) {
    // [loss]
    using points = gr::shape<64, 1>;
    const auto x = gr::uniform<double, points>(ctx, {.seed = 1, .step = step}, 0, std::numbers::pi);
    const auto one = gr::ones<double, points>(ctx), zero = gr::zeros<double, points>(ctx);
    const auto j = net.with_derivatives(jet{tape.watch(x), tape.watch(one), tape.watch(zero)});
    const auto residual = j.xx + j.u;                    // u'' = -u,
    const auto at_zero = gr::slice<0, 0, 1>(one) * 0.0;  // u(0) = 0 and u'(0) = 1: u = sin
    const auto start = net.with_derivatives(jet{tape.watch(at_zero), tape.watch(at_zero + 1.0), tape.watch(at_zero)});
    auto loss = gr::mean(residual * residual) + gr::sum(start.u * start.u + (start.x - 1.0) * (start.x - 1.0));
    gr::backward(loss);
    optimizer.step(ctx);
    // [/loss]
    (step == 0 ? first : last) = gr::item(loss.value());
  }
  CHECK(last < first / 20);
}
