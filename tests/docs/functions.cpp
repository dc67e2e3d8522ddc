// The code of docs/guide/functions.md, and the defaults that it states.
#include <doctest/doctest.h>

#include <cmath>
#include <gradus/gradus.hpp>

namespace gr = gradus;

// [select]
struct leaky_relu {
  static constexpr std::string_view name = "leaky_relu";
  double slope;
  template <class T>
  T operator()(T x) const {
    using gr::math::select;
    return select(x > T(0), x, T(slope) * x);
  }
};
// [/select]

TEST_CASE("models in double, functors with select and with braces, ignored targets") {
  gr::stream stream;
  gr::host_resource heap;
  gr::context ctx{stream, heap};
  auto x = gr::from_values<float, gr::shape<2>>(ctx, {-2, 3});

  // [fp64]
  using X = gr::on<gr::cpu, gr::fp64>;
  gr::nn::linear<X, 4, 2> layer;  // its parameters are doubles, and so must be what it is applied to
  // [/fp64]
  gr::init(layer, ctx, gr::normal_init{});
  const auto y = layer(gr::zeros<double, gr::shape<3, 4>>(ctx));
  static_assert(std::is_same_v<decltype(y)::value_type, double>);
  CHECK(y(2, 1) == 0);

  // The functor stands outside of main; its constants are members.
  CHECK(gr::to_host(gr::map(leaky_relu{0.125}, x)) == std::vector<float>{-0.25f, 3});
  {
    gr::tape tape{ctx};
    const auto v = tape.variable(x);
    const auto [dx] = gr::gradients(gr::sum(gr::map(leaky_relu{0.125}, v)), v);
    CHECK(gr::to_host(dx) == std::vector<float>{0.125f, 1});
  }

  auto a = gr::clone(x), b = gr::clone(x);
  // [braces]
  auto sum = gr::map(gr::functor::add{}, a, b);  // what a + b and gr::add(a, b) are
  auto held = gr::map(gr::functor::clamp{-1, 1}, x);
  // [/braces]
  CHECK(gr::to_host(sum) == std::vector<float>{-4, 6});
  CHECK(gr::to_host(held) == std::vector<float>{-1, 1});

  // [ignored]
  auto logits = gr::from_values<float, gr::shape<3, 2>>(ctx, {0, 0, 5, -5, 0, 0});
  auto targets = gr::from_values<std::int32_t, gr::shape<3>>(ctx, {0, -1, 1});
  float loss = gr::item(gr::cross_entropy(logits, targets));  // log 2: the second row is left out
  auto theirs = gr::from_values<std::int32_t, gr::shape<3>>(ctx, {0, -100, 1});
  float same = gr::item(gr::cross_entropy(logits, theirs, /*ignore=*/-100));  // PyTorch's way
  // [/ignored]
  CHECK(loss == doctest::Approx(std::log(2.0)));
  CHECK(same == loss);
  CHECK(gr::item(gr::cross_entropy(logits, gr::full<std::int32_t, gr::shape<3>>(ctx, -1))) == 0);
}

TEST_CASE("the defaults are those that the page states") {
  gr::stream stream;
  gr::host_resource heap;
  gr::context ctx{stream, heap};
  const gr::adamw_options adamw;
  CHECK((adamw.lr == 1e-3 && adamw.beta1 == 0.9 && adamw.beta2 == 0.95 && adamw.eps == 1e-8));
  CHECK(adamw.weight_decay == 0.1);
  const gr::sgd_options sgd;
  CHECK((sgd.lr == 1e-2 && sgd.momentum == 0 && sgd.weight_decay == 0));
  const gr::warmup_cosine schedule;
  CHECK((schedule.peak == 1e-3 && schedule.low == 1e-4 && schedule.warmup == 100 && schedule.total == 1000));
  CHECK((gr::normal_init{}.seed == 0 && gr::normal_init{}.stddev == 0.02));

  const auto one = gr::ones<double, gr::shape<1>>(ctx);
  CHECK(gr::gelu(one)(0) == doctest::Approx(0.841191990607477));      // the tanh form
  CHECK(gr::gelu_erf(one)(0) == doctest::Approx(0.841344746068543));  // 1/2 (1 + erf(1/sqrt 2))

  const auto small = gr::from_values<double, gr::shape<2>>(ctx, {-3e-3, 3e-3});  // a mean square of 9e-6, near eps
  const auto weight = gr::ones<double, gr::shape<2>>(ctx);
  CHECK(gr::rms_norm(small, weight)(1) == doctest::Approx(3e-3 / std::sqrt(9e-6 + 1e-5)));
  CHECK(gr::layer_norm(small, weight, gr::zeros<double, gr::shape<2>>(ctx))(1) ==
        doctest::Approx(3e-3 / std::sqrt(9e-6 + 1e-5)));
  CHECK(gr::item(gr::variance(small)) == doctest::Approx(9e-6));  // divided by 2, not by 1

  gr::tape tape{ctx};
  const auto a = tape.variable(gr::ones<float, gr::shape<2>>(ctx));
  const auto b = tape.variable(gr::ones<float, gr::shape<2>>(ctx));
  const auto [da, db] = gr::gradients(gr::sum(gr::maximum(a, b)) + gr::max(a), a, b);
  CHECK(gr::to_host(da) == std::vector<float>{1, 0});  // of max alone: the first of equal ones
  CHECK(gr::to_host(db) == std::vector<float>{1, 1});  // of maximum: the second operand
}
