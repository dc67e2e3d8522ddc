#include <doctest/doctest.h>

#include <gradus/planning.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "../../support/operands.hpp"

namespace gr = gradus;
using namespace gradus_test;
using gr::reduction;

namespace {
constexpr float inf = std::numeric_limits<float>::infinity();
}

TEST_CASE("bce_with_logits is exact in both tails, and its gradient at a logit of 0 is half of the weights less t") {
  workplace at;
  const auto x = gr::from_values<float, gr::shape<4>>(at.ctx, {-60, 60, 0, 0});
  const auto t = gr::from_values<bool, gr::shape<4>>(at.ctx, {false, true, false, true});
  gr::tape tape{at.ctx};
  const auto v = tape.variable(x);
  const auto y = gr::bce_with_logits<reduction::none>(v, t, 3);
  CHECK(y.value()(0) == doctest::Approx(std::exp(-60.0)).epsilon(1e-5));
  CHECK(y.value()(1) == doctest::Approx(3 * std::exp(-60.0)).epsilon(1e-5));
  CHECK(y.value()(3) == doctest::Approx(3 * std::log(2.0)));
  gr::backward(gr::sum(y));
  CHECK(v.gradient()(2) == 0.5f);
  CHECK(v.gradient()(3) == -1.5f);
}

TEST_CASE("kl_divergence is 0, and without a gradient, where the probability is 0") {
  workplace at;
  const auto x = gr::from_values<float, gr::shape<2>>(at.ctx, {-inf, -1});
  const auto p = gr::from_values<float, gr::shape<2>>(at.ctx, {0, 1});
  gr::tape tape{at.ctx};
  const auto v = tape.variable(x);
  const auto y = gr::kl_divergence<reduction::sum>(v, p);
  CHECK(gr::item(y.value()) == 1);
  gr::backward(y);
  CHECK(gr::to_host(v.gradient()) == std::vector<float>{0, -1});
}

TEST_CASE("a loss of 16-bit tensors is a float") {
  workplace at;
  const auto x = gr::full<gr::bf16, gr::shape<5>>(at.ctx, gr::bf16(300.0f));
  const auto y = gr::mse_loss<reduction::none>(x, gr::zeros<gr::bf16, gr::shape<5>>(at.ctx));
  static_assert(std::is_same_v<decltype(y)::value_type, float>);
  CHECK(y(4) == 90000);
}

TEST_CASE("nll_loss and cross_entropy with options agree with the plain cross_entropy, ignored rows and all") {
  workplace at;
  const auto x = normal<float, gr::shape<2, 5, 37>>(at.ctx, 3);
  const auto t = integers<std::int32_t, gr::shape<2, 5>>(at.ctx, -1, 36);
  const float plain = gr::item(gr::cross_entropy(x, t));
  CHECK(gr::item(gr::cross_entropy(x, t, {.ignore = -1})) == doctest::Approx(plain));
  CHECK(gr::item(gr::nll_loss(gr::log_softmax(x), t)) == doctest::Approx(plain));
  const auto ones = gr::ones<float, gr::shape<37>>(at.ctx);
  CHECK(gr::item(gr::cross_entropy(x, t, ones)) == doctest::Approx(plain));
  const auto none = gr::full<std::int32_t, gr::shape<2, 5>>(at.ctx, 7);
  CHECK(gr::item(gr::nll_loss(x, none, 7)) == 0);
  // Probabilities that are 1 at one class.
  const auto one = gr::full<std::int32_t, gr::shape<2, 5>>(at.ctx, 4);
  auto p = gr::zeros<float, gr::shape<2, 5, 37>>(at.ctx);
  for (gr::index_t i = 0; i < 2; ++i)
    for (gr::index_t j = 0; j < 5; ++j) p(i, j, 4) = 1;
  CHECK(gr::item(gr::cross_entropy(x, p)) == doctest::Approx(gr::item(gr::cross_entropy(x, one))));
}

TEST_CASE("a target that is no class is an error that names it") {
  workplace at;
  const auto x = gr::zeros<float, gr::shape<3, 5>>(at.ctx);
  const auto t = gr::from_values<std::int32_t, gr::shape<3>>(at.ctx, {0, 5, -1});
  CHECK_THROWS_WITH_AS(static_cast<void>(gr::nll_loss(x, t)),
                       "nll_loss, cross_entropy(x, targets): target 5 of row 1 is outside 0 .. 4 and is not the "
                       "ignored -1",
                       gr::error);
}

TEST_CASE("cumsum, prod and losses of classes have the same bits on one thread and on two") {
  workplace at;
  const auto x = normal<float, gr::shape<40, 300>>(at.ctx);
  const auto dy = normal<float, gr::shape<40, 300>>(at.ctx);
  const auto t = integers<std::int32_t, gr::shape<40>>(at.ctx, 0, 299);
  const auto run = [&](int n) {
    threads on(at.ctx, n);
    return evaluate(
        at.ctx,
        [&](auto v) {
          return gr::cumsum<0>(v) + gr::cumsum<1>(v) + gr::prod<1>(v, gr::keep_axes) + gr::nll_loss(v, t);
        },
        dy, x);
  };
  const auto one = run(1), two = run(2);
  CHECK(same_bits(one.y, two.y));
  CHECK(same_bits(std::get<0>(one.gradients), std::get<0>(two.gradients)));
}

TEST_CASE("running sums are of double precision, wrap in integers and keep their order; products of integers wrap") {
  workplace at;
  auto x = gr::full<float, gr::shape<100001>>(at.ctx, 0.1f);
  const auto y = gr::cumsum<0>(x);
  CHECK(y(100000) == static_cast<float>(100001 * static_cast<double>(0.1f)));
  const auto i = gr::from_values<std::int64_t, gr::shape<2>>(at.ctx, {std::numeric_limits<std::int64_t>::max(), 2});
  CHECK(gr::to_host(gr::cumsum<0>(i)) == std::vector<std::int64_t>{std::numeric_limits<std::int64_t>::max(),
                                                                   std::numeric_limits<std::int64_t>::min() + 1});
  CHECK(gr::item(gr::prod(i)) == -2);
  CHECK(gr::item(gr::prod(gr::from_values<bool, gr::shape<2>>(at.ctx, {true, false}))) == 0);
  const auto b = gr::from_values<bool, gr::shape<3>>(at.ctx, {true, false, true});
  CHECK(gr::to_host(gr::cumsum<0>(b)) == std::vector<std::int64_t>{1, 1, 2});
}

TEST_CASE("argmin finds the first smallest element, or NaN; a deviation of 0 has a gradient of 0") {
  workplace at;
  const auto x = gr::from_values<float, gr::shape<2, 3>>(at.ctx, {3, -1, -1, 5, std::nanf(""), 0});
  CHECK(gr::to_host(gr::argmin<1>(x)) == std::vector<std::int32_t>{1, 1});
  const auto least = gr::from_values<std::int32_t, gr::shape<2>>(at.ctx, {0, std::numeric_limits<std::int32_t>::min()});
  CHECK(gr::item(gr::argmin(least)) == 1);
  gr::tape tape{at.ctx};
  const auto v = tape.variable(gr::full<float, gr::shape<5>>(at.ctx, 2.5f));
  gr::backward(gr::standard_deviation(v));
  for (const float g : v.gradient().values()) CHECK(g == 0);
}

namespace {
// A step of the newer operations.
template <class D>
struct newer_step {
  using device = D;
  struct model {
    gr::param<gr::on<D>, 5, 19> weight;
    GRADUS_MEMBERS(weight)
  };
  model net;
  gr::context<D>& transient;
  gr::tape<D> tape;

  constexpr newer_step(gr::context<D>& kept, gr::context<D>& freed) : transient(freed), tape(freed) {
    gr::init(net, kept, gr::normal_init{.seed = 11});
  }
  constexpr void step() {
    const auto x = gr::full<float, gr::shape<7, 5>>(transient, 0.5f, gr::category::input);
    const auto t = gr::full<std::int32_t, gr::shape<7>>(transient, 3, gr::category::input);
    auto y = gr::checkpoint([](auto u, const auto& w) { return gr::sin(gr::matmul(u, w)); }, tape.watch(x), net.weight);
    y *= 2;
    y += gr::where(y < 0.1, gr::cumsum<0>(y), 1);
    // One after the other: C++ evaluates operands of + in any order, also another one in a constant expression.
    auto loss = gr::cross_entropy(y, t, {.smoothing = 0.1});
    loss += gr::nll_loss<reduction::sum>(y, t);
    loss += gr::mse_loss(y, gr::zeros<float, gr::shape<7, 19>>(transient));
    loss += gr::sum(gr::prod<0>(y));
    loss += gr::mean(gr::logsumexp<0>(y));
    loss += gr::standard_deviation(y);
    static_cast<void>(gr::argmin(gr::where(gr::logical_not(y == 0), 1.5, 2)));
    gr::backward(loss);
    gr::clear_gradients(net);
  }
};
}  // namespace

TEST_CASE("a plan of the newer operations is a constant, and has the bytes of the step") {
  constexpr gr::step_summary plan = gr::summarize_step<newer_step<gr::meta>>();
  gr::stream stream;
  gr::host_resource heap;
  gr::stats_resource stats(heap);
  gr::context<gr::cpu> ctx{stream, stats};
  newer_step<gr::cpu> of(ctx, ctx);
  of.step();
  stats.reset_peak();
  of.step();
  CHECK(stats.all().peak == plan.peak_bytes);
}
