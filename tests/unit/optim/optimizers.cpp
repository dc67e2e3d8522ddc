#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gradus/gradus.hpp>

#include "../../support/seed.hpp"

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
      for (gr::index_t i = 0; i < g.size; ++i) g.data()[i] = gr::uniform_float(key.words(i)[0]) - 0.4f;
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
  CHECK(opt.clip(w.ctx, 1.0).value() == doctest::Approx(std::sqrt(squares)).epsilon(1e-6));
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
  CHECK(opt.clip(w.ctx, 0.5).value() == doctest::Approx(1.0).epsilon(1e-4));
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
  CHECK(opt.clip(ctx, 1.0).value() == doctest::Approx(2 * std::sqrt(1500.0)));
}

TEST_CASE("a step is skipped wherever in its gradients the one is that is not finite") {
  world w;
  gr::loss_scaler<gr::cpu> scaler{w.ctx};
  gr::sgd opt{w.net, {.lr = 1}};
  const auto before = w.values();
  for (const gr::index_t i : {0u, 20000u, 32767u, 32768u, 40000u}) {
    CAPTURE(i);
    w.give_gradients(1);
    auto bad = gr::zeros<float, gr::shape<40001>>(w.ctx);
    bad(i) = std::numeric_limits<float>::infinity();
    w.net.long_vector.slot().give(std::move(bad));
    opt.unscale(scaler);
    opt.step(w.ctx);
    CHECK(w.values() == before);
  }
  CHECK(opt.skipped() == 5);
}

TEST_CASE("adafactor takes the step of its formula where a matrix is cut into parts, and where there are several") {
  gr::stream stream;
  gr::host_resource heap;
  gr::context ctx{stream, heap};
  struct {
    gr::param<X, 3, 70, 500> w;
    gr::param<X, 40000> v;
    GRADUS_MEMBERS(w, v)
  } net;
  gr::init(net, ctx, gr::normal_init{.seed = 4, .stddev = 1});
  constexpr std::size_t matrices = 3, rows = 70, columns = 500, n = matrices * rows * columns;
  auto start = gr::to_host(net.w.value());
  for (std::size_t i = 0; i < rows * columns; ++i) net.w.edit().data()[i] = start[i] *= 3;  // one unlike the others
  auto g = gr::normal<float, gr::shape<matrices, rows, columns>>(ctx, {.seed = 5});
  for (std::size_t i = 0; i < n; ++i) g.data()[i] *= static_cast<float>(1 + i / columns % rows);
  const auto gradient = gr::to_host(g);
  net.w.slot().give(std::move(g));
  net.v.set(gr::full<float, gr::shape<40000>>(ctx, 1.0f));
  for (gr::index_t i = 0; i < 20000; ++i) net.v.edit()(i) = 3;
  net.v.slot().give(gr::full<float, gr::shape<40000>>(ctx, -2.0f));
  gr::adafactor opt{net, {}};
  opt.step(ctx);
  // The first step: averages are those of its gradient.
  std::vector<double> of_row(matrices * rows), of_column(matrices * columns), of_matrix(matrices), update(n);
  double values = 0, updates = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const double square = static_cast<double>(gradient[i]) * static_cast<double>(gradient[i]);
    const std::size_t matrix = i / (rows * columns);
    of_row[i / columns] += square / columns;
    of_column[matrix * columns + i % columns] += square / rows;
    of_matrix[matrix] += square / (rows * columns);
    values += static_cast<double>(start[i]) * static_cast<double>(start[i]) / n;
  }
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t matrix = i / (rows * columns);
    const double factor = of_row[i / columns] * of_column[matrix * columns + i % columns] / of_matrix[matrix];
    update[i] = static_cast<double>(gradient[i]) / std::sqrt(factor);
    updates += update[i] * update[i] / n;
  }
  const double rate = 1e-2 * std::sqrt(values) / std::max(1.0, std::sqrt(updates));
  double worst = 0;
  for (std::size_t i = 0; i < n; ++i)
    worst = std::max(worst, std::abs(static_cast<double>(net.w.value().data()[i]) - (start[i] - rate * update[i])));
  CHECK(worst < 1e-6);
  CHECK(net.v.value()(39999) == doctest::Approx(1 + 1e-2 * std::sqrt(5.0)));
}

TEST_CASE("a scale that was updated between unscale and step is an error") {
  gr::stream stream;
  gr::host_resource heap;
  gr::context ctx{stream, heap};
  gr::param<gr::on<gr::cpu>, 3> w;
  w.set(gr::full<float, gr::shape<3>>(ctx, 1.0f));
  gr::sgd optimizer{w, {.lr = 0.1}};
  gr::loss_scaler scaler{ctx};
  for (const bool clips : {false, true}) {
    gr::tape tape{ctx};
    gr::backward(scaler.scale(gr::sum(tape.watch(gr::full<float, gr::shape<3>>(ctx, 2.0f)) * w)));
    optimizer.unscale(scaler);
    if (clips) static_cast<void>(optimizer.clip(ctx, 1.0));
    scaler.update(ctx);
    CHECK_THROWS_WITH_AS(optimizer.step(ctx),
                         "optimizer.step(ctx): the scaler was updated after unscale(scaler); call scaler.update(ctx) "
                         "after the step",
                         gr::error);
    optimizer.clear_gradients();
  }
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
      norms[static_cast<std::size_t>(threads - 1)] = opt.clip(w.ctx, 1.0).value();
      opt.step(w.ctx);
    }
    results[static_cast<std::size_t>(threads - 1)] = w.values();
  }
  CHECK(results[0] == results[1]);
  CHECK(norms[0] == norms[1]);
}

TEST_CASE("a limit of the gradient norm that is no number, or below 0, is refused") {
  world w;
  gr::sgd opt{w.net};
  w.give_gradients(1);
  for (const double limit : {-1.0, std::nan("")})
    CHECK_THROWS_WITH_AS(opt.clip(w.ctx, limit), "optimizer.clip(ctx, max_norm): max_norm must be 0 or more",
                         gr::error);
}

TEST_CASE("a norm that clip() measured stays readable after the step") {
  world w;
  gr::sgd opt{w.net, {.lr = 1}};
  w.give_gradients(1);
  const auto norm = opt.clip(w.ctx, 1.0);
  const double before = norm.value();
  opt.step(w.ctx);
  CHECK(norm.value() == before);
}

TEST_CASE("clipping by value holds each element, after the factors before it and before the norm") {
  world w;
  gr::sgd opt{w.net, {.lr = 1}};
  w.give_gradients(1);
  const auto before = w.values();
  const auto g = w.gradients();
  opt.scale_gradients(2);
  opt.clip_value(0.25);
  opt.scale_gradients(0.5);
  double squares = 0;
  const auto held = [](double x) { return 0.5 * std::max(-0.25, std::min(0.25, 2 * x)); };
  for (const auto& t : g)
    for (const double x : t) squares += held(x) * held(x);
  CHECK(opt.clip(w.ctx, 3.0).value() == doctest::Approx(std::sqrt(squares)).epsilon(1e-6));
  opt.step(w.ctx);
  const double coefficient = std::min(1.0, 3.0 / (std::sqrt(squares) + 1e-6));
  double worst = 0;
  for (std::size_t p = 0; p < g.size(); ++p)
    for (std::size_t i = 0; i < g[p].size(); ++i)
      worst = std::max(worst, std::abs(w.values()[p][i] - (before[p][i] - coefficient * held(g[p][i]))));
  CHECK(worst < 1e-6);
}

TEST_CASE("clipping by value after clipping by norm, or twice, is refused") {
  world w;
  gr::sgd opt{w.net};
  w.give_gradients(1);
  CHECK_THROWS_AS(opt.clip_value(0), gr::error);
  opt.clip_value(1);
  CHECK_THROWS_AS(opt.clip_value(1), gr::error);
  opt.step(w.ctx);
  w.give_gradients(2);
  opt.clip(w.ctx, 1);
  CHECK_THROWS_AS(opt.clip_value(1), gr::error);
}

TEST_CASE("settings by name, rank and size reach the parameters they are for") {
  world w;
  std::vector<std::string> names;
  gr::sgd opt{w.net, {.lr = 1, .weight_decay = 0.5}, [&](const gr::param_info& p) {
                names.emplace_back(p.name);
                CHECK(p.rank == (p.name == "w" ? 2 : 1));
                CHECK(p.size == (p.name == "w" ? 111 : p.name == "b" ? 5 : 40001));
                return gr::param_settings{.lr = p.name == "b" ? 0.0 : 0.1, .weight_decay = p.name == "w" ? 0.0 : 2.0};
              }};
  CHECK(names == std::vector<std::string>{"w", "b", "long_vector"});
  w.give_gradients(1);
  const auto before = w.values();
  const auto g = w.gradients();
  opt.step(w.ctx);
  CHECK(w.values()[0][5] == doctest::Approx(before[0][5] - 0.1 * g[0][5]).epsilon(1e-5));
  CHECK(w.values()[1] == before[1]);
  CHECK(w.values()[2][7] == doctest::Approx(before[2][7] - 0.1 * (g[2][7] + 1.0 * before[2][7])).epsilon(1e-5));
}

TEST_CASE("states are there by name, before the first step too, and what is written into them counts") {
  world one, other;
  gr::adamw a{one.net, {.lr = 0.01}};
  gr::adamw b{other.net, {.lr = 0.01}};
  one.give_gradients(1);
  a.step(one.ctx);
  std::vector<std::vector<float>> saved;
  std::vector<std::string> names;
  a.for_each_state(one.ctx, one.net, [&](const gr::named_state<gr::cpu>& s) {
    names.push_back(std::string(s.parameter) + "." + std::string(s.state));
    CHECK(s.dtype == "f32");
    const auto* values = static_cast<const float*>(s.data);
    saved.emplace_back(values, values + s.size);
  });
  CHECK(names == std::vector<std::string>{"w.exp_avg", "w.exp_avg_sq", "b.exp_avg", "b.exp_avg_sq",
                                          "long_vector.exp_avg", "long_vector.exp_avg_sq"});
  std::size_t next = 0;
  b.for_each_state(other.ctx, other.net, [&](const gr::named_state<gr::cpu>& s) {
    std::copy(saved[next].begin(), saved[next].end(), static_cast<float*>(s.data));
    ++next;
  });
  b.set_steps(a.steps());
  gr::visit_params(other.net, [&](auto& p) {
    gr::visit_params(one.net, [&](auto& q) {
      if constexpr (std::is_same_v<decltype(p), decltype(q)>) p.set(gr::clone(q.value(), gr::category::parameter));
    });
  });
  one.give_gradients(2);
  other.give_gradients(2);
  a.step(one.ctx);
  b.step(other.ctx);
  CHECK(one.values() == other.values());
}

namespace {

template <class P>
struct short_model {
  gr::param<gr::on<gr::cpu, P>, 3, 37> w;
  gr::param<gr::on<gr::cpu, P>, 8001> v;
  GRADUS_MEMBERS(w, v)
};

// Bytes of state a parameter after a step.
template <class P, class MakeOptimizer>
double state_bytes(const MakeOptimizer& make_optimizer) {
  gr::stream stream;
  gr::host_resource heap;
  gr::stats_resource stats(heap);
  gr::context<gr::cpu> ctx{stream, stats};
  short_model<P> net;
  gr::init(net, ctx, gr::normal_init{.seed = 3});
  auto optimizer = make_optimizer(net);
  gr::visit_params(net, [&](auto& p) {
    using Q = std::remove_reference_t<decltype(p)>;
    p.slot().give(gr::ones<typename Q::gradient_value_type, typename Q::shape>(ctx));
  });
  optimizer.step(ctx);
  return static_cast<double>(stats.of(gr::category::optimizer_state).live) /
         static_cast<double>(gr::parameter_count(net));
}

}  // namespace

TEST_CASE("states take the bytes a parameter that they should") {
  const auto of_float = [](auto make) { return state_bytes<gr::fp32>(make); };
  const auto of_bf16 = [](auto make) { return state_bytes<gr::bf16_pure>(make); };
  CHECK(of_float([](auto& net) { return gr::adamw{net}; }) == 8);
  CHECK(of_bf16([](auto& net) { return gr::adamw{net}; }) == 8);
  CHECK(of_float([](auto& net) { return gr::sgd{net}; }) == 0);
  CHECK(of_float([](auto& net) { return gr::sgd{net, {.momentum = 0.9}}; }) == 4);
  CHECK(of_float([](auto& net) { return gr::lion{net}; }) == 4);
  CHECK(of_float([](auto& net) { return gr::any_precision_adamw{net}; }) == 4);
  CHECK(of_bf16([](auto& net) { return gr::any_precision_adamw{net}; }) == 6);
  // 111 values in float, 8001 in 32 blocks of 8 bits
  CHECK(of_float([](auto& net) { return gr::adamw_8bit{net}; }) ==
        doctest::Approx((8.0 * 111 + 2 * 8001 + 8 * 32) / (111 + 8001)));
  CHECK(of_float([](auto& net) { return gr::muon{net}; }) == (4.0 * 111 + 8.0 * 8001) / (111 + 8001));
  // a row and a column of the matrix, and each value of the vector
  CHECK(of_float([](auto& net) { return gr::adafactor{net}; }) ==
        doctest::Approx(4.0 * (3 + 37 + 8001) / (111 + 8001)));
}

TEST_CASE("stochastic rounding to bf16 keeps small updates in the mean, and depends on seed, step and element alone") {
  struct outcome {
    double mean;
    std::vector<gr::bf16> values;
  };
  const auto run = [](gr::rounding how, std::uint64_t seed, int threads) {
    gr::stream stream;
    gr::set_thread_count(stream, threads);
    gr::host_resource heap;
    gr::context<gr::cpu> ctx{stream, heap};
    short_model<gr::bf16_pure> net;
    net.w.set(gr::full<gr::bf16, gr::shape<3, 37>>(ctx, gr::bf16(1.0f)));
    net.v.set(gr::full<gr::bf16, gr::shape<8001>>(ctx, gr::bf16(1.0f)));
    gr::sgd optimizer{net, {.lr = 1e-3}};
    optimizer.set_rounding(how, seed);
    for (int step = 0; step < 100; ++step) {
      gr::visit_params(net, [&](auto& p) {
        using Q = std::remove_reference_t<decltype(p)>;
        p.slot().give(gr::full<gr::bf16, typename Q::shape>(ctx, gr::bf16(-1.0f)));
      });
      optimizer.step(ctx);
    }
    outcome o{0, gr::to_host(net.v.value())};
    for (const gr::bf16 x : o.values) o.mean += static_cast<double>(static_cast<float>(x)) / 8001;
    return o;
  };
  const auto bits = [](const outcome& o) {
    std::vector<std::uint16_t> all;
    for (const gr::bf16 x : o.values) all.push_back(x.bits);
    return all;
  };
  CHECK(run(gr::rounding::nearest, 0, 1).mean ==
        doctest::Approx(1).epsilon(1e-9));  // an update of a thousandth is lost, each time
  const outcome one = run(gr::rounding::stochastic, 7, 1);
  CHECK(one.mean == doctest::Approx(1.1).epsilon(2e-3));  // 8001 draws of 100 steps: a deviation of 2e-4
  CHECK(bits(one) == bits(run(gr::rounding::stochastic, 7, 2)));
  CHECK(bits(one) != bits(run(gr::rounding::stochastic, 8, 1)));
}

namespace {
struct twins {
  gr::param<gr::on<gr::cpu, gr::bf16_pure>, 64, 64> a, b;
  GRADUS_MEMBERS(a, b)
};
}  // namespace

TEST_CASE("two tensors that are alike are rounded by draws of their own, whatever the optimizer") {
  const auto unlike = [](const auto& make) {
    gr::stream stream;
    gr::host_resource heap;
    gr::context<gr::cpu> ctx{stream, heap};
    twins net;
    auto optimizer = make(net);
    optimizer.set_rounding(gr::rounding::stochastic, 7);
    gr::visit_params(net, [&](auto& p) {
      p.set(gr::full<gr::bf16, gr::shape<64, 64>>(ctx, gr::bf16(1.0f)));
      p.slot().give(gr::cast<gr::bf16>(gr::normal<float, gr::shape<64, 64>>(ctx, {.seed = 5})));
    });
    optimizer.step(ctx);
    std::size_t count = 0;
    for (gr::index_t i = 0; i < 64 * 64; ++i) count += net.a.value().data()[i].bits != net.b.value().data()[i].bits;
    return count;
  };
  CHECK(unlike([](twins& net) { return gr::sgd{net, {.lr = 1e-3}}; }) > 0);
  CHECK(unlike([](twins& net) { return gr::adamw{net}; }) > 0);
  CHECK(unlike([](twins& net) { return gr::adamw_8bit{net}; }) > 0);
  CHECK(unlike([](twins& net) { return gr::adafactor{net}; }) > 0);
  CHECK(unlike([](twins& net) { return gr::muon{net}; }) > 0);
}

TEST_CASE("stochastic rounding of packs has the bits of that of one number after another, wherever they begin") {
  const gr::random_key key{.seed = gradus_test::fresh_seed(), .step = 3, .ordinal = 1};
  gr::step_inputs in{.rounds = gr::rounding::stochastic, .key = key};
  std::vector<float> x(301);
  for (gr::index_t i = 0; i < x.size(); ++i)
    x[i] = std::ldexp(gr::uniform_float(key.words(900 + i)[0]) - 0.5f, static_cast<int>(i % 40) - 20);
  x[5] = std::numeric_limits<float>::infinity();
  x[40] = std::numeric_limits<float>::quiet_NaN();
  x[41] = std::bit_cast<float>(0xFF800001u);  // a NaN whose upper half is that of minus infinity
  x[300] = -std::numeric_limits<float>::infinity();
  for (gr::index_t first : {0u, 3u, 8u, 61u, 4000u}) {
    CAPTURE(first);
    std::vector<gr::bf16> found(x.size());
    gr::cpu_kit::value_writer writer(in);
    gr::cpu_kit::for_packs<float>(x.size(), [&](gr::index_t i, auto n) {
      writer.write(gr::cpu_kit::load<float>(x.data() + i, n), found.data() + i, n, first + i);
    });
    std::size_t wrong = 0;
    for (gr::index_t i = 0; i < x.size(); ++i)
      wrong += found[i].bits != gr::round_stochastically(x[i], key.words((first + i) / 8), (first + i) % 8).bits;
    CHECK(wrong == 0);
  }
}

TEST_CASE("stochastic rounding goes to one of the two neighbours, leaves what bf16 can hold, and NaN stays NaN") {
  const std::array<std::uint32_t, 4> least{}, most{~0u, ~0u, ~0u, ~0u};
  for (const float x : {0.0f, 1.0f, -1.5f, std::numeric_limits<float>::infinity()})
    for (const auto& words : {least, most})
      for (gr::index_t half = 0; half < 8; ++half)
        CHECK(static_cast<float>(gr::round_stochastically(x, words, half)) == x);
  CHECK(static_cast<float>(gr::round_stochastically(1.001f, least, 0)) == 1.0f);
  CHECK(static_cast<float>(gr::round_stochastically(1.001f, most, 0)) == 1.0078125f);
  CHECK(static_cast<float>(gr::round_stochastically(-1.001f, most, 0)) == -1.0078125f);
  CHECK(std::isnan(static_cast<float>(gr::round_stochastically(std::nanf(""), most, 3))));
}
