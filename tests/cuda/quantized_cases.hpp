#pragma once
// Weights in 8 bits, on any device.
#include <gradus/model/init.hpp>
#include <gradus/nn/quantized.hpp>

#include "cases.hpp"

template <class T, class P, class D>
void quantized_case(runner<D>& r, const std::string& name) {
  using X = gr::on<D, gr::frozen<P>>;
  gr::nn::quantized_weight<X, 40, 192> w;
  gr::param<X, 192> bias;
  gr::init(w, r.ctx(), gr::normal_init{});
  gr::init(bias, r.ctx(), gr::normal_init{.stddev = 0.5});
  auto elements = r.template random<T>(40 * 192);
  for (int i = 0; i < 64; ++i) elements[64 + i] = T(0.0f);
  w.set(gr::from_host<T, gr::shape<40, 192>>(r.ctx(), elements.data()));
  r.keep(name + ": codes", gr::to_host(w.codes.value()), 1e-30);
  r.keep(name + ": scales", gr::to_host(w.scales.value()), 1e-30);
  r.keep(name + ": values", gr::to_host(w.values()), 1e-30);
  using C = typename P::compute;
  r.template differentiate<C, gr::shape<3, 5, 40>>(name, [&](auto x) { return gr::linear(x, w); });
  r.template differentiate<C, gr::shape<3, 5, 40>>(name + " with a bias",
                                                   [&](auto x) { return gr::linear(x, w, bias); });
}

template <class D>
void quantized_cases(runner<D>& r) {
  quantized_case<float, gr::fp32>(r, "float");
  quantized_case<gr::bf16, gr::bf16_mixed>(r, "bf16");
  quantized_case<double, gr::fp64>(r, "double");
}

std::vector<record> quantized_on_cpu(unsigned seed);
