#pragma once
#include <gradus/model/init.hpp>
#include <gradus/nn/recurrent.hpp>
#include <gradus/ops/recurrent/recurrent.hpp>
#include <gradus/ops/slice/slice.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>

#include "cases.hpp"

template <class D>
void recurrent_cases(runner<D>& r) {
  const auto lstm = [](auto x, auto w, auto h, auto c) {
    const auto [y, last_h, last_c] = gr::lstm(x, w, h, c);
    return gr::cast<float>(y) * gr::mean(gr::cast<float>(last_h) * gr::cast<float>(last_c));
  };
  const auto gru = [](auto x, auto w, auto b, auto h) { return std::get<0>(gr::gru(x, w, b, h)); };
  r.template differentiate<float, gr::shape<3, 4, 20>, gr::shape<5, 20>, gr::shape<3, 5>, gr::shape<3, 5>>("lstm, odd",
                                                                                                           lstm);
  r.template differentiate<gr::bf16, gr::shape<2, 3, 64>, gr::shape<16, 64>, gr::shape<2, 16>, gr::shape<2, 16>>(
      "lstm, bf16", lstm);
  r.template differentiate<float, gr::shape<2, 3, 160>, gr::shape<40, 160>>(
      "lstm from zeros", [](auto x, auto w) { return gr::lstm(x * 0.5f, w * 0.5f); });
  r.template differentiate<double, gr::shape<70, 2, 15>, gr::shape<5, 15>, gr::shape<15>, gr::shape<70, 5>>(
      "gru, more than a block, double", gru);
  r.template differentiate<gr::f16, gr::shape<2, 3, 48>, gr::shape<16, 48>, gr::shape<48>, gr::shape<2, 16>>("gru, f16",
                                                                                                             gru);
  const gr::recurrent_options<D> how{.reversed = true,
                                     .lengths = gr::from_values<std::int32_t, gr::shape<3>>(r.ctx(), {4, 0, 2})};
  r.template differentiate<float, gr::shape<3, 4, 12>, gr::shape<3, 12>>(
      "lstm in reverse, with lengths", [&](auto x, auto w) { return gr::lstm(x, w, how); });
  r.template differentiate<float, gr::shape<3, 4, 9>, gr::shape<3, 9>, gr::shape<9>>(
      "gru in reverse, with lengths", [&](auto x, auto w, auto b) { return gr::gru(x, w, b, how); });
}

/// Two layers from a state, with dropout between them, of which products are in bf16.
template <class D>
void recurrent_layers_cases(runner<D>& r) {
  gr::nn::lstm<gr::on<D, gr::bf16_mixed>, 24, 16, 2> net;
  gr::init(net, r.ctx(), gr::normal_init{.seed = 3, .stddev = 0.3});
  gr::tape tape{r.ctx(), 5};
  using S = gr::shape<3, 4, 24>;
  const auto x = gr::from_host<float, S>(r.ctx(), r.template random<float>(S::size).data());
  const auto [y, state] = net(tape.watch(x), net.template zero_state<3>(r.ctx()), {.dropout = 0.2});
  r.keep("two layers: y", gr::to_host(y.value()), 2e-2);
  r.keep("two layers: c", gr::to_host(state.c.value()), 2e-2);
  gr::backward(gr::sum(gr::cast<float>(y)) + gr::sum(state.c));
  gr::for_each_param(net, [&](std::string_view name, const auto& p) {
    r.keep("two layers: gradient of " + std::string(name), gr::to_host(p.gradient()), 2e-2);
  });
}

// Computed in the .cpp file.
std::vector<record> recurrent_on_cpu(unsigned seed);
std::vector<record> recurrent_layers_on_cpu(unsigned seed);
