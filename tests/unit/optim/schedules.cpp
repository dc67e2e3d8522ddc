#include <doctest/doctest.h>

#include <vector>

#include <gradus/gradus.hpp>

namespace gr = gradus;

TEST_CASE("every schedule warms up linearly, and goes on at its peak") {
  const auto check = [](const auto& rate) {
    CHECK(rate(0) == doctest::Approx(0.25));
    CHECK(rate(3) == doctest::Approx(1));
    CHECK(rate(4) == doctest::Approx(1));
  };
  check(gr::warmup_constant{.peak = 1, .warmup = 4});
  check(gr::warmup_linear{.peak = 1, .low = 0.1, .warmup = 4, .total = 12});
  check(gr::warmup_cosine{.peak = 1, .low = 0.1, .warmup = 4, .total = 12});
  check(gr::warmup_stable_decay{.peak = 1, .low = 0.1, .warmup = 4, .total = 12, .decay = 0.5});
}

TEST_CASE("schedules go down to their lowest rate, each on its way") {
  const gr::warmup_constant constant{.peak = 1, .warmup = 4};
  CHECK(constant(1e6) == 1);
  const gr::warmup_linear linear{.peak = 1, .low = 0.1, .warmup = 4, .total = 12};
  CHECK(linear(8) == doctest::Approx(0.55));
  CHECK(linear(12) == doctest::Approx(0.1));
  CHECK(linear(1000) == doctest::Approx(0.1));
  const gr::warmup_cosine cosine{.peak = 1, .low = 0.1, .warmup = 4, .total = 12};
  CHECK(cosine(8) == doctest::Approx(0.55));
  CHECK(cosine(12) == doctest::Approx(0.1));
  CHECK(cosine(1000) == doctest::Approx(0.1));
  const gr::warmup_stable_decay stable{.peak = 1, .low = 0.1, .warmup = 4, .total = 20, .decay = 0.2};
  CHECK(stable(16) == 1);
  CHECK(stable(17) == doctest::Approx(0.1 + 0.9 * 0.5));  // sqrt(1/4)
  CHECK(stable(20) == doctest::Approx(0.1));
  CHECK(stable(1000) == doctest::Approx(0.1));
}

namespace {
template <class P>
struct model {
  gr::param<gr::on<gr::cpu, P>, 3, 37> w;
  gr::param<gr::on<gr::cpu, P>, 5> b;
  GRADUS_MEMBERS(w, b)
};
}  // namespace

TEST_CASE_TEMPLATE("an average of weights follows its formula, is the model's for a while, and leaves it as it was", P,
                   gr::fp32, gr::bf16_pure) {
  using T = typename P::store;
  gr::stream stream;
  gr::host_resource heap;
  gr::stats_resource stats(heap);
  gr::context<gr::cpu> ctx{stream, stats};
  model<P> net;
  gr::init(net, ctx, gr::normal_init{.seed = 3, .stddev = 1});
  gr::weight_average average{net, {.decay = 0.75}};
  CHECK_THROWS_AS(average.use(ctx), gr::error);
  const auto value = [&] { return static_cast<double>(static_cast<gr::compute_type<T>>(net.w.value()(2, 36))); };
  double expected = value();
  average.update(ctx);
  for (int step = 1; step <= 4; ++step) {
    net.w.edit()(2, 36) = static_cast<T>(1.0f + 0.25f * static_cast<float>(step));
    expected = 0.75 * expected + 0.25 * value();
    average.update(ctx);
  }
  CHECK(stats.of(gr::category::optimizer_state).live == (3 * 37 + 5) * sizeof(gr::compute_type<T>));
  const auto as_floats = [](const std::vector<T>& values) {
    std::vector<float> all;
    for (const T v : values) all.push_back(static_cast<float>(v));
    return all;
  };
  const auto before = gr::to_host(net.w.value());
  const double kept = value();
  for (int twice = 0; twice < 2; ++twice) {
    {
      const auto version = net.w.version();
      const auto guard = average.use(ctx);
      CHECK(net.w.version() != version);
      CHECK(value() == doctest::Approx(expected).epsilon(sizeof(T) == 2 ? 4e-3 : 1e-6));
    }
    CHECK(value() == kept);
  }
  {
    const auto outer = average.use(ctx);
    const auto averages = gr::to_host(net.w.value());
    {
      const auto inner = average.use(ctx);
      CHECK(as_floats(gr::to_host(net.w.value())) == as_floats(averages));
    }
    CHECK(as_floats(gr::to_host(net.w.value())) == as_floats(averages));
    CHECK_THROWS_AS(average.update(ctx), gr::error);
    CHECK_THROWS_AS(average.for_each_state(ctx, net, [](const auto&) {}), gr::error);
  }
  CHECK(as_floats(gr::to_host(net.w.value())) == as_floats(before));
  CHECK(stats.of(gr::category::temporary).live == 0);
  average.for_each_state(ctx, net, [&](const gr::named_state<gr::cpu>& s) {
    if (s.parameter != "w") return;
    CHECK(static_cast<const float*>(s.data)[2 * 37 + 36] == doctest::Approx(expected).epsilon(1e-6));
    CHECK(static_cast<const float*>(s.data)[0] == doctest::Approx(static_cast<double>(as_floats(before)[0])));
  });
}
