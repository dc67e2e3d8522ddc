// There are no second derivatives, and no program takes a gradient for a constant without saying so.

#include <doctest/doctest.h>

#include <string>
#include <tuple>
#include <vector>

#include <gradus/gradus.hpp>

#include "../../support/message_of.hpp"

namespace gr = gradus;
using gradus_test::message_of;

namespace {

struct bench {
  gr::stream stream;
  gr::host_resource heap;
  gr::context<gr::cpu> ctx{stream, heap};
  gr::tape<gr::cpu> tape{ctx};
  gr::tensor<float, gr::shape<2>> x = gr::from_values<float, gr::shape<2>>(ctx, {1, 2});
};

// What is said of an operand, such as "add: operand 2".
std::string refused(const std::string& operand) {
  return operand +
         " is a gradient or was computed from one, and second derivatives are not supported; to use it as a constant, "
         "pass gradus::detach(x); for derivatives in a loss, see docs/guide/derivatives.md";
}

}  // namespace

TEST_CASE("a recorded operation refuses the result of gradients(), and what was computed from it") {
  bench b;
  auto v = b.tape.variable(b.x);
  const auto g = std::get<0>(gr::gradients(gr::sum(v * v * v), v));
  const auto penalty = gr::sum(gr::reshape<1, 2>(g * g)) + 1.0;
  for (const auto& constant : {penalty, gr::sum(gr::clone(g))}) {
    auto w = b.tape.variable(b.x);
    CHECK(message_of([&] { gr::backward(gr::sum(w) + constant); }) == refused("add: operand 2"));
    b.tape.clear();
  }
  auto w = b.tape.variable(b.x);
  CHECK(message_of([&] { gr::checkpoint([&](auto y) { return y * g; }, w); }) == refused("multiply: operand 2"));
  b.tape.clear();
  CHECK(message_of([&] { b.tape.watch(g); }).substr(0, 15) == "tape.watch(x): ");
}

TEST_CASE("the gradients of parameters and variables that were read are refused alike") {
  bench b;
  gr::param<gr::on<gr::cpu>, 2> p;
  p.set(gr::clone(b.x));
  auto v = b.tape.variable(b.x);
  gr::backward(gr::sum(v * v * p));
  const auto from_variable = v.gradient() * 2;
  const auto from_parameter = gr::exp(p.gradient());
  auto w = b.tape.variable(b.x);
  CHECK(message_of([&] { auto y = w * from_variable; }) == refused("multiply: operand 2"));
  CHECK(message_of([&] { auto y = w + from_parameter; }) == refused("add: operand 2"));
}

TEST_CASE("detach makes a constant of a gradient, and variable() a leaf") {
  bench b;
  auto v = b.tape.variable(b.x);
  const auto [g] = gr::gradients(gr::sum(v * v), v);  // 2 x
  auto w = b.tape.variable(b.x);
  gr::backward(gr::sum(w * gr::detach(g)));
  CHECK(gr::to_host(w.gradient()) == std::vector<float>{2, 4});
  auto leaf = b.tape.variable(g * 3);
  gr::backward(gr::sum(leaf * leaf));
  CHECK(gr::to_host(leaf.gradient()) == std::vector<float>{12, 24});
}

TEST_CASE("steps written by hand go on: operations on plain tensors, and parameters that are set") {
  bench b;
  gr::param<gr::on<gr::cpu>, 2> p;
  p.set(gr::clone(b.x));
  for (int step = 0; step < 2; ++step) {
    gr::backward(gr::sum(b.tape.watch(b.x) * p * p));
    p.set(p.value() - p.gradient() * 0.1);
    p.clear_gradient();
    gr::backward(gr::sum(b.tape.variable(b.x) * p.value()));  // as a constant
  }
  CHECK(p.value()(0) == doctest::Approx(0.64));
  CHECK(p.value()(1) == doctest::Approx(2 * 0.36));
}

TEST_CASE("a parameter without a value is named by its shape and its place") {
  bench b;
  const gr::nn::linear<gr::on<gr::cpu>, 2, 3> layer;
  const std::string wanted =
      "linear: operand 2, a parameter or state of shape<2, 3>, has no value yet; call gradus::init(model, context, "
      "rule) first";
  const auto rows = gr::reshape<1, 2>(b.x);
  CHECK(message_of([&] { layer(rows); }) == wanted);
  CHECK(message_of([&] { layer(b.tape.watch(rows)); }) == wanted);
}

TEST_CASE("a constant that custom_op returns as a gradient stays one, in this step and the next") {
  bench b;
  gr::param<gr::on<gr::cpu>, 2> p;
  p.set(gr::clone(b.x));
  const auto c = gr::from_values<float, gr::shape<2>>(b.ctx, {3, 5});
  for (int step = 0; step < 3; ++step) {
    auto v = b.tape.variable(b.x);
    const auto y = gr::custom_op([c](const auto& w, const auto& x) { return w * c + x; },
                                 [c](const auto&, const auto&, const auto&, const auto&) {
                                   return std::tuple{c, c};
                                 },
                                 p, v);
    gr::backward(gr::sum(y) + gr::sum(v * c));
    CHECK(gr::to_host(p.gradient()) == std::vector<float>{3, 5});
    CHECK(gr::to_host(v.gradient()) == std::vector<float>{6, 10});
    const auto read = p.gradient() * 1;
    auto w = b.tape.variable(b.x);
    CHECK(message_of([&] { auto z = w * read; }) == refused("multiply: operand 2"));  // marked all the same
    b.tape.clear();
    p.clear_gradient();
  }
  CHECK(gr::to_host(c) == std::vector<float>{3, 5});
}
