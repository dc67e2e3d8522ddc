// What reads a bounded tensor reads the elements that are there, in memory whose rest is full of NaN.
#include <doctest/doctest.h>

#include <cmath>
#include <gradus/gradus.hpp>
#include <gradus/interop/dlpack.hpp>
#include <gradus/report/anomaly.hpp>
#include <gradus/testing/gradcheck.hpp>
#include <sstream>

#include "../../support/message_of.hpp"
#include "../../support/operands.hpp"

namespace gr = gradus;
using gr::shape, gr::upto;
using gradus_test::message_of;
using gradus_test::workplace;

TEST_CASE("an anomaly is one of elements that are there") {
  workplace at;
  gr::anomaly_finder finder;
  at.ctx.observe(&finder);
  const auto step = [&](float value) {
    const auto x = gr::full<float, shape<upto<8>, 4>>(at.ctx, value, {3});
    gr::tape tape{at.ctx};
    const auto v = tape.variable(x);
    gr::backward(gr::mean(gr::log(v) * v + 1.0));
  };
  CHECK_NOTHROW(step(2));
  CHECK_THROWS_WITH_AS(step(-1), doctest::Contains("log"), gr::error);
  at.ctx.observe(nullptr);
}

TEST_CASE("host copies, texts, sums and norms have the elements that are there") {
  workplace at;
  const auto x = gr::full<float, shape<upto<8>, 2>>(at.ctx, 3.0f, {3});
  CHECK(gr::to_host(x) == std::vector<float>(6, 3.0f));
  const auto mask = gr::full<bool, shape<upto<8>>>(at.ctx, true, {3});
  CHECK(gr::to_host(mask).size() == 3);
  std::ostringstream text;
  text << x;
  CHECK(text.str().find("nan") == std::string::npos);
  CHECK(gr::item(gr::sum(x)) == 18);
  CHECK(gr::item(gr::variance(x)) == 0);
  CHECK(gr::clone(x).extents().size == 6);
  CHECK(gr::to_host(gr::cast<double>(x)).size() == 6);
}

TEST_CASE("gradcheck takes bounded operands") {
  workplace at;
  auto x = gr::full<double, shape<upto<5>, 2>>(at.ctx, 0.5, {3});
  x.data()[1] = 0.7;
  const auto result = gr::gradcheck([](const auto& v) { return gr::sin(v) * v; }, x);
  CHECK_MESSAGE(result.ok, result.message);
}

TEST_CASE("a gradient of custom_op has the extents of its operand") {
  workplace at;
  gr::tape tape{at.ctx};
  const auto x = tape.variable(gr::zeros<float, shape<upto<8>>>(at.ctx, {3}));
  const auto y = gr::custom_op(
      [](const auto& a) { return gr::clone(a); },
      [&](const auto&, const auto&, const auto&) { return gr::ones<float, shape<upto<8>>>(at.ctx, {5}); }, x);
  CHECK(message_of([&] { gr::backward(gr::sum(y)); }) ==
        "custom_op(forward, backward, x...): backward returned a gradient of shape<5 of 8> for an operand of "
        "shape<3 of 8>; they must be equal");
}

TEST_CASE("reshape takes extents that follow, and asks for those that do not") {
  workplace at;
  const auto x = gr::zeros<float, shape<upto<72>>>(at.ctx, {6});
  CHECK(message_of([&] { static_cast<void>(gr::reshape<upto<8>, upto<9>>(x)); }) ==
        "reshape: two bounded extents of the new shape do not follow from those of x; say all of them, "
        "reshape<extents...>(x, {2, 3})");
  const auto told = gr::reshape<upto<8>, upto<9>>(x, {2, 3});
  CHECK(told.extent(0) == 2);
  CHECK(gr::reshape<upto<72>>(told).extent(0) == 6);
  CHECK(gr::reshape<upto<36>, 2>(x).extent(0) == 3);
  // Two axes of one bound keep their order: [2, 3, 4] of two bounds 4.
  const auto twice = gr::zeros<float, shape<upto<4>, 3, upto<4>>>(at.ctx, {2, 4});
  const auto flat = gr::reshape<upto<4>, upto<4>, 3>(twice);
  CHECK(flat.extent(0) == 2);
  CHECK(flat.extent(1) == 4);
  // An extent that follows is one that its axis can have.
  CHECK(message_of([&] { static_cast<void>(gr::reshape<upto<9>, 8>(x)); }) ==
        "axis 0 is upto<9>: it has 1 to 9 entries, not 0");
}

TEST_CASE("a gradient that came while a parameter was frozen is not there after unfreeze") {
  workplace at;
  gr::param<gr::on<gr::cpu>, 3> w;
  w.set(gr::full<float, shape<3>>(at.ctx, 2.0f));
  gr::tape tape{at.ctx};
  const auto x = tape.variable(gr::full<float, shape<3>>(at.ctx, 1.0f));
  const auto y = gr::sum(x * w);
  gr::freeze(w);
  gr::backward(y);
  CHECK_FALSE(w.has_gradient());
  gr::unfreeze(w);
  CHECK_FALSE(w.has_gradient());
}
