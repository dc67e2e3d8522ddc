// Operations on parameters alone: recorded where watch() brings the parameter into the recording, refused there
// otherwise.

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
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
  gr::param<gr::on<gr::cpu>, 2> p;
  bench() { p.set(gr::from_values<float, gr::shape<2>>(ctx, {3, 5})); }
};

// What is said of an operand, such as "add: operand 2".
std::string refused(const std::string& operand) {
  return operand +
         " was computed from parameters outside the recording, so they would get no gradient through it; record its "
         "input with tape.watch(input), or, if it has no other inputs than parameters, begin with "
         "gradus::watch(parameter, x), where x is recorded; to use it as a constant, pass gradus::detach(it)";
}

}  // namespace

TEST_CASE("a recorded operation refuses what was computed from parameters alone, and what was computed from that") {
  bench b;
  const auto x = b.tape.watch(b.x);
  CHECK(message_of([&] { auto y = b.p * b.p * x; }) == refused("multiply: operand 1"));
  const auto later = gr::clone(gr::exp(b.p) + b.x);
  CHECK(message_of([&] { auto y = x + later; }) == refused("add: operand 2"));
  CHECK(message_of([&] { gr::checkpoint([&](auto u) { return u * later; }, x); }) == refused("multiply: operand 2"));
  const auto held = gr::exp(b.p);
  const auto sum = held + b.x, turned = b.x + held;
  CHECK(message_of([&] { auto y = x + sum; }) == refused("add: operand 2"));
  CHECK(message_of([&] { auto y = x + turned; }) == refused("add: operand 2"));
  const auto flat = gr::reshape<1, 2>(b.p);
  CHECK(message_of([&] { auto y = gr::reshape<1, 2>(x) * flat; }) == refused("multiply: operand 2"));
  // The parameter's own value is not marked: it is a constant, as ever.
  auto v = b.tape.variable(b.x);
  gr::backward(gr::sum(v * b.p.value() + v * gr::detach(later)));
  CHECK_FALSE(b.p.gradient());
}

TEST_CASE("watch brings a parameter into a recording, in a checkpoint region too") {
  bench b;
  const auto square = [&](auto x) {
    const auto p = gr::watch(b.p, x);
    return p * p * x;
  };
  gr::backward(gr::sum(square(b.tape.watch(b.x))));
  CHECK(gr::to_host(b.p.gradient()) == std::vector<float>{6, 20});
  b.p.clear_gradient();
  gr::backward(gr::sum(gr::checkpoint(square, b.tape.watch(b.x))));
  CHECK(gr::to_host(b.p.gradient()) == std::vector<float>{6, 20});
  CHECK(gr::to_host(square(b.x)) == std::vector<float>{9, 50});  // plain where x is
  const auto weight = gr::watch(b.p, b.x);
  static_assert(gr::is_tensor<std::remove_cvref_t<decltype(weight)>>);
}

TEST_CASE("a watched or reshaped parameter that changes before backward is an error") {
  bench b;
  const auto y = gr::sum(gr::watch(b.p, b.tape.watch(b.x)) * b.x);
  b.p.edit();
  CHECK(message_of([&] { gr::backward(y); }).starts_with("backward: a parameter or state of reshape was changed"));
}

TEST_CASE("of two integer inputs the one that is not recorded is named, with what to do") {
  bench b;
  gr::nn::embedding<gr::on<gr::cpu>, 3, 2> words, places;
  gr::init(words, b.ctx, gr::normal_init{.seed = 1});
  gr::init(places, b.ctx, gr::normal_init{.seed = 2});
  const auto model = [&](const auto& text, const auto& where) { return gr::sum(words(text) + places(where)); };
  const auto text = gr::from_values<std::int32_t, gr::shape<2>>(b.ctx, {2, 0});
  const auto where = gr::from_values<std::int32_t, gr::shape<2>>(b.ctx, {0, 1});
  CHECK(message_of([&] { gr::backward(model(b.tape.watch(text), where)); }) == refused("add: operand 2"));
  b.tape.clear();
  CHECK(message_of([&] { gr::backward(model(text, b.tape.watch(where))); }) == refused("add: operand 1"));
  b.tape.clear();
  gr::backward(model(b.tape.watch(text), b.tape.watch(where)));
  CHECK(gr::to_host(words.weight.gradient()) == std::vector<float>{1, 1, 0, 0, 1, 1});
  CHECK(gr::to_host(places.weight.gradient()) == std::vector<float>{1, 1, 1, 1, 0, 0});
}
