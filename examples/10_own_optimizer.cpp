// Lesson 10: an optimizer of your own. You say what becomes of one element, and the library runs it on all of them, in
// one pass.

#include <cstdio>
#include <gradus/gradus.hpp>

namespace gr = gradus;

// Steps of one length, by the sign of an average of gradients (Bernstein et al. 2018: signum).
struct signum {
  double lr = 1e-3, weight_decay = 0, beta = 0.9;  // the settings
  static constexpr std::array states{"exp_avg"};   // what is kept of each parameter

  template <class C>  // float, or double
  struct update {
    C lr, keep, beta, rest;
    template <class V>  // on the CPU, a pack of elements
    GRADUS_HD void operator()(V& value, V gradient, V& average) const {
      using gr::math::select;
      average = V(beta) * average + V(rest) * gradient;
      value = value * V(keep) - select(average < V(0), V(-lr), V(lr));
    }
  };
  template <class C>
  GRADUS_HD update<C> at(const gr::tensor_step& s) const {
    return {C(s.lr), C(1 - s.lr * s.weight_decay), C(beta), C(1 - beta)};
  }
};

struct line {
  gr::param<gr::on<gr::cpu>, 1, 1> slope;
  gr::param<gr::on<gr::cpu>, 1> offset;
  GRADUS_MEMBERS(slope, offset)
  constexpr auto operator()(auto x) const { return gr::linear(std::move(x), slope, offset); }
};

int main() {
  gr::stream stream;
  gr::host_resource heap;
  gr::context ctx{stream, heap};
  line net;
  gr::init(net, ctx, gr::normal_init{.seed = 1});
  gr::element_optimizer optimizer{net, signum{.lr = 0.1}};
  gr::tape tape{ctx};

  const auto x = gr::from_values<float, gr::shape<4, 1>>(ctx, {-1, 0, 1, 2});
  const auto y = gr::from_values<float, gr::shape<4, 1>>(ctx, {-5, -2, 1, 4});  // 3 x - 2
  for (int step = 0; step < 200; ++step) {
    optimizer.options.lr = 0.1 * (1 - step / 200.0);
    auto error = net(tape.watch(x)) - y;
    gr::backward(gr::mean(error * error));
    optimizer.step(ctx);
  }
  std::printf("y = %.2f x + %.2f\n", net.slope.value()(0, 0), net.offset.value()(0));
  optimizer.for_each_state(ctx, net, [](const gr::named_state<gr::cpu>& s) {
    std::printf("%s of %s: %zu x %s\n", s.state.data(), std::string(s.parameter).c_str(), s.size, s.dtype.data());
  });
}
