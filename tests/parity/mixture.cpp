// nn::mixture against PyTorch's: output, auxiliary loss and every gradient, in double and float.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <type_traits>

#include "../support/operands.hpp"
#include "fixture.hpp"

namespace gr = gradus;
using namespace gradus_test;

namespace {

using batch = gr::shape<2, 11, 6>;

const fixture& recorded() {
  static const fixture f(GRADUS_TEST_DATA "/parity/mixture.safetensors");
  return f;
}
template <class X>
void check(const X& found, const std::string& name) {
  CAPTURE(name);
  const double near = std::is_same_v<typename X::value_type, double> ? gr::testing::tolerances{}.f64 : 2e-6;
  CHECK(worst_error(found.values(), recorded().values(name)) < near);
}

// A mixture with the recorded parameters, and its gradients.
template <class T, class Mixture>
void check_mixture(workplace& at, Mixture& net, const std::string& name) {
  const auto read = [&]<class Shape>(Shape, const std::string& part) {
    return gr::from_values<T, Shape>(at.ctx, recorded().values_as<T>(name + "." + part));
  };
  gr::init(net, at.ctx, gr::normal_init{});
  gr::for_each_param(net, [&](std::string_view path, auto& p) {
    const std::string part(path.substr(path.rfind('.') + 1));
    p.set(gr::clone(read(typename std::remove_cvref_t<decltype(p)>::shape{}, part)));
  });
  net.options.balance = 0.3;
  net.options.z = 0.2;
  gr::tape tape{at.ctx};
  const auto x = tape.variable(read(batch{}, "x"));
  const auto [y, auxiliary] = net(x);
  check(y.value(), name + ".y");
  check(auxiliary.value(), name + ".auxiliary");
  gr::backward(gr::sum(y * read(batch{}, "dy")) + auxiliary);
  check(x.gradient(), name + ".dx");
  gr::for_each_param(net, [&](std::string_view path, auto& p) {
    check(p.gradient(), name + ".d" + std::string(path.substr(path.rfind('.') + 1)));
  });
  CHECK(numbers(net.load.value()) == recorded().values(name + ".counts"));
  check(net.output(x.value()), name + ".y");
}

}  // namespace

TEST_CASE_TEMPLATE("a mixture of experts has PyTorch's output, losses and gradients", T, double, float) {
  using X = gr::on<gr::cpu, gr::precision<T>>;
  workplace at;
  gr::nn::mixture<X, 6, 4, 2, gr::nn::swiglu_experts<X, 4, 6, 10>> mixtral;
  check_mixture<T>(at, mixtral, "mixtral");
  gr::nn::mixture<X, 6, 5, 1, gr::nn::mlp_experts<X, 5, 6, 10>> first;
  first.options.renormalise = false;
  first.options.capacity = 1.1;  // 4.84 tokens of 22: at most 5
  check_mixture<T>(at, first, "switch");
}
