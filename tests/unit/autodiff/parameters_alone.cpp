// Operations on parameters alone: recorded where watch() brings the parameter into the recording, refused there otherwise.

#include <doctest/doctest.h>

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

const std::string refused =
    "apply: an operand was computed from parameters outside the recording, so they would get no gradient through it; "
    "begin with gradus::watch(parameter, x), x being recorded; if it is meant as a constant, pass gradus::detach(it)";

}  // namespace

TEST_CASE("a recorded operation refuses what was computed from parameters alone, and what was computed from that") {
  bench b;
  const auto x = b.tape.watch(b.x);
  CHECK(message_of([&] { auto y = b.p * b.p * x; }) == refused);
  const auto later = gr::clone(gr::exp(b.p) + b.x);
  CHECK(message_of([&] { auto y = x + later; }) == refused);
  CHECK(message_of([&] { gr::checkpoint([&](auto u) { return u * later; }, x); }) == refused);
  const auto flat = gr::reshape<1, 2>(b.p);
  CHECK(message_of([&] { auto y = gr::reshape<1, 2>(x) * flat; }) == refused);
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
  CHECK(message_of([&] { gr::backward(y); }).starts_with("backward: a parameter of reshape was changed"));
}
