#include <doctest/doctest.h>

#include <cmath>
#include <gradus/gradus.hpp>
#include <gradus/report/anomaly.hpp>
#include <limits>
#include <string>

#include "../../support/message_of.hpp"
#include "../../support/operands.hpp"

namespace gr = gradus;
using gradus_test::message_of;
using gradus_test::workplace;

namespace {

using vector_param = gr::param<gr::on<gr::cpu>, 3>;

struct net {
  vector_param w;
  GRADUS_MEMBERS(w)
};

}  // namespace

TEST_CASE("the first operation that computes something that is not finite is named, with its phase and element") {
  workplace at;
  gr::anomaly_finder finder;
  net n;
  gr::init(n, at.ctx, gr::normal_init{.seed = 1});
  gr::tape tape{at.ctx};
  const auto set = [&](float a, float b, float c) {
    const float values[] = {a, b, c};
    n.w.set(gr::from_host<float, gr::shape<3>>(at.ctx, values, gr::category::parameter));
  };
  const auto step = [&] {
    const auto x = gr::full<float, gr::shape<3>>(at.ctx, 1.0f);
    try {
      gr::backward(gr::sum(gr::sqrt(gr::exp(tape.watch(x) * n.w) - tape.watch(x))));
    } catch (...) {
      tape.clear();
      n.w.slot().clear();
      throw;
    }
    n.w.slot().clear();
  };
  at.ctx.observe(&finder);
  set(1, 2, 3);
  CHECK_NOTHROW(step());
  set(1, 200, 3);
  CHECK(message_of(step) == "anomaly: exp (forward) is the first to compute inf: element 1 of 3 of its result");
  finder.step = 7;
  set(1, 2, -1);
  CHECK(message_of(step) ==
        "anomaly: at step 7, sqrt (forward) is the first to compute nan: element 2 of 3 of its result");
  finder.step = 0;
  set(1, 0, 1);  // sqrt(0): forward is finite, its derivative is not
  CHECK(message_of(step) ==
        "anomaly: sqrt (backward) is the first to compute inf: element 1 of 3 of its gradient for operand 1");
  gr::anomaly_finder forward_only(false);
  at.ctx.observe(&forward_only);
  CHECK_NOTHROW(step());
  at.ctx.observe(nullptr);
  set(1, 200, 3);
  CHECK_NOTHROW(step());  // nobody looks
}

TEST_CASE("an anomaly is found in 16-bit values, and integers are none") {
  workplace at;
  gr::anomaly_finder finder;
  at.ctx.observe(&finder);
  const auto x = gr::full<gr::bf16, gr::shape<4>>(at.ctx, gr::bf16(3e38f));
  CHECK(message_of([&] { x + x; }).find("is the first to compute inf: element 0 of 4 of its result") !=
        std::string::npos);
  CHECK_NOTHROW(gr::cast<std::int32_t>(x * gr::full<gr::bf16, gr::shape<4>>(at.ctx, gr::bf16(0.0f))));
  at.ctx.observe(nullptr);
}
