#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <vector>

#include <gradus/gradus.hpp>

namespace gr = gradus;

namespace {

using X = gr::on<gr::cpu, gr::fp32>;

// Odd sizes, one tensor longer than a chunk of the parallel loop.
struct model {
  gr::param<X, 3, 37> w;
  gr::param<X, 5> b;
  gr::param<X, 40001> long_vector;
  GRADUS_MEMBERS(w, b, long_vector)
};

struct world {
  gr::stream stream;
  gr::host_resource heap;
  gr::context<gr::cpu> ctx{stream, heap};
  model net;
  world() {
    gr::init(net, ctx, gr::normal_init{.seed = 3, .stddev = 1});
    for (float& x : net.long_vector.edit().values()) x = 0.25f;
  }
  void give_gradients(unsigned round) {
    std::uint32_t ordinal = 0;
    gr::visit_params(net, [&](auto& p) {
      using P = std::remove_reference_t<decltype(p)>;
      auto g = gr::empty<float, typename P::shape>(ctx);
      const gr::random_key key{.seed = 9, .step = round, .ordinal = ordinal++};
      for (gr::index i = 0; i < g.size; ++i) g.data()[i] = gr::uniform_float(key.words(i)[0]) - 0.4f;
      p.slot().give(std::move(g));
    });
  }
  std::vector<std::vector<double>> values() {
    std::vector<std::vector<double>> all;
    gr::visit_params(net, [&](auto& p) { all.emplace_back(p.value().values().begin(), p.value().values().end()); });
    return all;
  }
  std::vector<std::vector<double>> gradients() {
    std::vector<std::vector<double>> all;
    gr::visit_params(net, [&](auto& p) { all.emplace_back(p.gradient_data(), p.gradient_data() + p.size()); });
    return all;
  }
};

}  // namespace

TEST_CASE("adamw takes the steps of its formula, with decay on matrices only") {
  world w;
  gr::adamw opt{w.net, {.lr = 0.01, .beta1 = 0.8, .beta2 = 0.9, .eps = 1e-6, .weight_decay = 0.5}};
  auto expected = w.values();
  auto m = expected;
  auto v = expected;
  for (auto& t : m) std::fill(t.begin(), t.end(), 0.0);
  for (auto& t : v) std::fill(t.begin(), t.end(), 0.0);
  for (unsigned step = 1; step <= 5; ++step) {
    w.give_gradients(step);
    const auto g = w.gradients();
    for (std::size_t p = 0; p < expected.size(); ++p)
      for (std::size_t i = 0; i < expected[p].size(); ++i) {
        if (p == 0) expected[p][i] -= 0.01 * 0.5 * expected[p][i];
        m[p][i] = 0.8 * m[p][i] + 0.2 * g[p][i];
        v[p][i] = 0.9 * v[p][i] + 0.1 * g[p][i] * g[p][i];
        expected[p][i] -=
            0.01 * (m[p][i] / (1 - std::pow(0.8, step))) / (std::sqrt(v[p][i] / (1 - std::pow(0.9, step))) + 1e-6);
      }
    opt.step(w.ctx);
  }
  const auto got = w.values();
  double worst = 0;
  for (std::size_t p = 0; p < expected.size(); ++p)
    for (std::size_t i = 0; i < expected[p].size(); ++i) worst = std::max(worst, std::abs(got[p][i] - expected[p][i]));
  CHECK(worst < 1e-5);
}

TEST_CASE("an optimizer that is told of earlier steps corrects its moments for them") {
  world w;
  gr::adamw opt{w.net, {.lr = 0.01, .beta1 = 0.8, .beta2 = 0.9, .eps = 1e-6, .weight_decay = 0}};
  opt.set_steps(4);
  w.give_gradients(1);
  const auto before = w.values();
  const auto g = w.gradients();
  opt.step(w.ctx);
  CHECK(opt.steps() == 5);
  for (std::size_t i = 0; i < before[1].size(); ++i) {
    const double m = 0.2 * g[1][i] / (1 - std::pow(0.8, 5)), v = 0.1 * g[1][i] * g[1][i] / (1 - std::pow(0.9, 5));
    CHECK(w.values()[1][i] == doctest::Approx(before[1][i] - 0.01 * m / (std::sqrt(v) + 1e-6)).epsilon(1e-5));
  }
}

TEST_CASE("sgd with momentum starts from the gradient and then averages") {
  world w;
  gr::sgd opt{w.net, {.lr = 0.1, .momentum = 0.9}};
  auto expected = w.values();
  std::vector<std::vector<double>> v;
  for (unsigned step = 1; step <= 3; ++step) {
    w.give_gradients(step);
    const auto g = w.gradients();
    if (step == 1) v = g;
    else
      for (std::size_t p = 0; p < v.size(); ++p)
        for (std::size_t i = 0; i < v[p].size(); ++i) v[p][i] = 0.9 * v[p][i] + g[p][i];
    for (std::size_t p = 0; p < v.size(); ++p)
      for (std::size_t i = 0; i < v[p].size(); ++i) expected[p][i] -= 0.1 * v[p][i];
    opt.step(w.ctx);
  }
  const auto got = w.values();
  double worst = 0;
  for (std::size_t p = 0; p < expected.size(); ++p)
    for (std::size_t i = 0; i < expected[p].size(); ++i) worst = std::max(worst, std::abs(got[p][i] - expected[p][i]));
  CHECK(worst < 1e-5);
}

TEST_CASE("clipping returns the norm before scaling and scales the next step only") {
  world w;
  gr::sgd opt{w.net, {.lr = 1}};
  w.give_gradients(1);
  double squares = 0;
  for (const auto& t : w.gradients())
    for (const double g : t) squares += g * g;
  const auto before = w.values();
  const auto g = w.gradients();
  CHECK(opt.clip(w.ctx, 1.0) == doctest::Approx(std::sqrt(squares)).epsilon(1e-6));
  opt.step(w.ctx);
  const double coefficient = 1.0 / (std::sqrt(squares) + 1e-6);
  CHECK(w.values()[0][7] == doctest::Approx(before[0][7] - coefficient * g[0][7]).epsilon(1e-5));

  w.give_gradients(2);
  const auto again = w.values();
  const auto g2 = w.gradients();
  opt.step(w.ctx);
  CHECK(w.values()[0][7] == doctest::Approx(again[0][7] - g2[0][7]).epsilon(1e-5));
}

TEST_CASE("clipping counts what was asked for before: the step's norm stays under the limit") {
  world w;
  gr::sgd opt{w.net, {.lr = 1}};
  w.give_gradients(1);
  opt.scale_gradients(1000);
  opt.clip(w.ctx, 1.0);
  CHECK(opt.clip(w.ctx, 0.5) == doctest::Approx(1.0).epsilon(1e-4));
  const auto before = w.values();
  opt.step(w.ctx);
  const auto after = w.values();
  double squares = 0;
  for (std::size_t p = 0; p < after.size(); ++p)
    for (std::size_t i = 0; i < after[p].size(); ++i) squares += std::pow(after[p][i] - before[p][i], 2);
  CHECK(std::sqrt(squares) == doctest::Approx(0.5).epsilon(1e-3));
}

TEST_CASE("a skipped step leaves nothing to the next one") {
  world w;
  gr::sgd opt{w.net, {.lr = 1}};
  w.give_gradients(1);
  opt.scale_gradients(1e-6);
  opt.clear_gradients();
  w.give_gradients(2);
  const auto before = w.values();
  const auto g = w.gradients();
  opt.step(w.ctx);
  CHECK(w.values()[0][7] == doctest::Approx(before[0][7] - g[0][7]).epsilon(1e-5));
}

TEST_CASE("a gradient norm under the limit leaves the gradients as they are") {
  world w;
  gr::sgd opt{w.net, {.lr = 1}};
  w.give_gradients(1);
  const auto before = w.values();
  const auto g = w.gradients();
  opt.clip(w.ctx, 1e9);
  opt.step(w.ctx);
  CHECK(w.values()[2][40000] == doctest::Approx(before[2][40000] - g[2][40000]).epsilon(1e-6));
}

TEST_CASE("a step forgets the gradients, and parameters without one stay as they are") {
  world w;
  gr::adamw opt{w.net};
  w.give_gradients(1);
  w.net.b.clear_gradient();
  const auto before = w.values();
  opt.step(w.ctx);
  CHECK(w.values()[1] == before[1]);
  CHECK(w.values()[0] != before[0]);
  gr::visit_params(w.net, [](const auto& p) { CHECK_FALSE(p.has_gradient()); });
}

TEST_CASE("a parameter keeps its moments where others have no gradient in some steps") {
  world all, some;
  gr::adamw with_all{all.net, {.lr = 0.01}};
  gr::adamw with_some{some.net, {.lr = 0.01}};
  for (unsigned step = 1; step <= 3; ++step) {
    all.give_gradients(step);
    some.give_gradients(step);
    if (step == 1) some.net.w.clear_gradient();
    if (step == 2) some.net.b.clear_gradient();
    with_all.step(all.ctx);
    with_some.step(some.ctx);
  }
  CHECK(all.values()[0] != some.values()[0]);
  CHECK(all.values()[1] != some.values()[1]);
  CHECK(all.values()[2] == some.values()[2]);  // it had a gradient in each step, and its moments are nobody else's
}

TEST_CASE("the norm of more parameters than there are partial sums is that of all of them") {
  gr::stream stream;
  gr::host_resource heap;
  gr::pool_resource pool{heap};  // gives back the same bytes, so that what is not written is not zero
  gr::context ctx{stream, pool};
  std::vector<gr::param<X, 1>> net(1500);
  gr::init(net, ctx, gr::normal_init{});
  gr::sgd<float, gr::cpu> opt{net};
  for (auto& p : net) p.slot().give(gr::full<float, gr::shape<1>>(ctx, 2.0f));
  (void)gr::full<double, gr::shape<2048>>(ctx, std::nan(""));
  CHECK(opt.clip(ctx, 1.0) == doctest::Approx(2 * std::sqrt(1500.0)));
}

TEST_CASE("factors of a gradient's scale multiply") {
  world w;
  gr::sgd opt{w.net, {.lr = 1}};
  w.give_gradients(1);
  const auto before = w.values();
  const auto g = w.gradients();
  opt.scale_gradients(0.5);
  opt.scale_gradients(0.25);
  opt.step(w.ctx);
  for (std::size_t i = 0; i < before[1].size(); ++i)
    CHECK(w.values()[1][i] == doctest::Approx(before[1][i] - 0.125 * g[1][i]).epsilon(1e-6));
}

TEST_CASE("steps and norms are the same to the bit on one thread and on two") {
  std::array<std::vector<std::vector<double>>, 2> results;
  std::array<double, 2> norms{};
  for (int threads = 1; threads <= 2; ++threads) {
    world w;
    gr::set_thread_count(w.stream, threads);
    gr::adamw opt{w.net};
    for (unsigned step = 1; step <= 3; ++step) {
      w.give_gradients(step);
      norms[static_cast<std::size_t>(threads - 1)] = opt.clip(w.ctx, 1.0);
      opt.step(w.ctx);
    }
    results[static_cast<std::size_t>(threads - 1)] = w.values();
  }
  CHECK(results[0] == results[1]);
  CHECK(norms[0] == norms[1]);
}

TEST_CASE("warm-up is linear, then half a cosine leads to the lowest rate") {
  const gr::warmup_cosine rate{.peak = 1, .low = 0.1, .warmup = 4, .total = 12};
  CHECK(rate(0) == doctest::Approx(0.25));
  CHECK(rate(3) == doctest::Approx(1));
  CHECK(rate(4) == doctest::Approx(1));
  CHECK(rate(8) == doctest::Approx(0.55));
  CHECK(rate(12) == doctest::Approx(0.1));
  CHECK(rate(1000) == doctest::Approx(0.1));
}

TEST_CASE("a limit of the gradient norm that is no number, or below 0, is refused") {
  world w;
  gr::sgd opt{w.net};
  w.give_gradients(1);
  for (const double limit : {-1.0, std::nan("")})
    CHECK_THROWS_WITH_AS(opt.clip(w.ctx, limit), "optimizer.clip(ctx, max_norm): max_norm must be 0 or more",
                         gr::error);
}
