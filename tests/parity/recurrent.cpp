// Models of recurrent layers against PyTorch's LSTM and GRU: losses and all gradients, in double and float.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <tuple>
#include <type_traits>

#include "../support/operands.hpp"
#include "fixture.hpp"

namespace gr = gradus;
using namespace gradus_test;

namespace {

constexpr gr::index_t batch = 3, steps = 5, in = 6, hidden = 7, classes = 4;

const fixture& recorded() {
  static const fixture f(GRADUS_TEST_DATA "/parity/recurrent.safetensors");
  return f;
}
template <class T, class Shape>
gr::tensor<T, Shape> read(gr::context<gr::cpu>& ctx, const std::string& name) {
  const auto values = recorded().values_as<T>(name);
  REQUIRE(values.size() == Shape::size);
  return gr::from_host<T, Shape>(ctx, values.data());
}
template <class X>
void check(const X& found, const std::string& name) {
  CAPTURE(name);
  constexpr double near = std::is_same_v<typename X::value_type, double> ? 1e-12 : 2e-6;
  CHECK(worst_error(found.values(), recorded().values_as<double>(name)) < near);
}

// A parameter of the model, and what the fixture calls it.
template <class P>
struct named_param {
  P& param;
  std::string name;
  void set(gr::context<gr::cpu>& ctx) const { param.set(read<typename P::value_type, typename P::shape>(ctx, name)); }
  void check_gradient() const {
    const auto dot = name.rfind('.') + 1;
    check(param.gradient(), name.substr(0, dot) + "d" + name.substr(dot));
  }
};
template <class P>
named_param(P&, std::string) -> named_param<P>;

template <class Layer>
auto params_of_lstm(Layer& layer, const std::string& name) {
  return std::tuple(named_param{layer.input.weight, name + ".ih"}, named_param{layer.input.bias, name + ".b"},
                    named_param{layer.hidden, name + ".hh"});
}
template <class Layer>
auto params_of_gru(Layer& layer, const std::string& name) {
  return std::tuple(named_param{layer.input.weight, name + ".ih"}, named_param{layer.input.bias, name + ".b"},
                    named_param{layer.hidden.weight, name + ".hh"}, named_param{layer.hidden.bias, name + ".c"});
}
const auto each = [](const auto& params, const auto& f) { std::apply([&](const auto&... p) { (f(p), ...); }, params); };

template <class T>
using X = gr::on<gr::cpu, gr::precision<T>>;

// The loss of `net` from `state` (variables), a linear layer and the last state, and the gradients of the parameters.
template <class T, class Net, class State, class Params, class OfState>
void check_classifier(gr::context<gr::cpu>& ctx, gr::tape<gr::cpu>& tape, const Net& net, const State& state,
                      const Params& params, const std::string& name, const OfState& of_state) {
  gr::nn::linear<X<T>, hidden, classes> head;
  const std::tuple of_head(named_param{head.weight, name + ".head.w"}, named_param{head.bias, name + ".head.b"});
  const auto all = std::tuple_cat(params, of_head);
  each(all, [&](const auto& p) { p.set(ctx); });
  const auto x = tape.variable(read<T, gr::shape<batch, steps, in>>(ctx, name + ".x"));
  const auto targets = read<std::int32_t, gr::shape<batch, steps>>(ctx, name + ".targets");
  const auto [y, last] = net(x, state);
  const auto loss = gr::cross_entropy(head(y), targets) + gr::mean(of_state(last));
  check(loss.value(), name + ".loss");
  gr::backward(loss);
  each(all, [&](const auto& p) { p.check_gradient(); });
  check(x.gradient(), name + ".dx");
  check(state.h.gradient(), name + ".dh");
}

}  // namespace

TEST_CASE_TEMPLATE("two layers of lstm have the loss and the gradients of PyTorch's LSTM", T, double, float) {
  workplace at;
  gr::nn::lstm<X<T>, in, hidden, 2> net;
  gr::tape tape{at.ctx};
  using state_shape = gr::shape<2, batch, hidden>;
  const auto h = tape.variable(read<T, state_shape>(at.ctx, "lstm.h"));
  const auto c = tape.variable(read<T, state_shape>(at.ctx, "lstm.c"));
  const gr::nn::lstm_state<std::remove_const_t<decltype(h)>, std::remove_const_t<decltype(c)>> state{h, c};
  const auto params = std::tuple_cat(params_of_lstm(std::get<0>(net.layers), "lstm.0"),
                                     params_of_lstm(std::get<1>(net.layers), "lstm.1"));
  check_classifier<T>(at.ctx, tape, net, state, params, "lstm", [](const auto& last) { return last.h * last.c; });
  check(state.c.gradient(), "lstm.dc");
}

TEST_CASE_TEMPLATE("gru has the loss and the gradients of PyTorch's GRU", T, double, float) {
  workplace at;
  gr::nn::gru<X<T>, in, hidden> net;
  gr::tape tape{at.ctx};
  const auto h = tape.variable(read<T, gr::shape<1, batch, hidden>>(at.ctx, "gru.h"));
  const gr::nn::gru_state<std::remove_const_t<decltype(h)>> state{h};
  check_classifier<T>(at.ctx, tape, net, state, params_of_gru(std::get<0>(net.layers), "gru.0"), "gru",
                      [](const auto& last) { return last.h * last.h; });
}

TEST_CASE_TEMPLATE("two directions over rows of different lengths have the values and gradients of PyTorch's LSTM", T,
                   double, float) {
  workplace at;
  gr::nn::lstm<X<T>, in, hidden> forward, reverse;
  const auto params = std::tuple_cat(params_of_lstm(std::get<0>(forward.layers), "both.forward"),
                                     params_of_lstm(std::get<0>(reverse.layers), "both.reverse"));
  each(params, [&](const auto& p) { p.set(at.ctx); });
  const auto lengths = read<std::int32_t, gr::shape<batch>>(at.ctx, "both.lengths");
  const auto dy = read<T, gr::shape<batch, steps, 2 * hidden>>(at.ctx, "both.dy");
  const auto counts = gr::cast<T>(gr::logical_not(dy == T(0)));  // dy is 0 after a row's end
  gr::tape tape{at.ctx};
  const auto x = tape.variable(read<T, gr::shape<batch, steps, in>>(at.ctx, "both.x"));
  const auto y = gr::concat<2>(forward(x, {.lengths = lengths}), reverse(x, {.reversed = true, .lengths = lengths}));
  check(gr::detach(y) * counts, "both.y");
  gr::backward(gr::sum(y * dy));
  each(params, [&](const auto& p) { p.check_gradient(); });
  check(x.gradient(), "both.dx");
}
