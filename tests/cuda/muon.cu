// Muon on the GPU, which iterates in bf16 on batches of matrices: directions, singular values, memory, skipped steps.
#include <algorithm>
#include <cmath>
#include <limits>

#include <gradus/plan/step_summary.hpp>

#include "device.hpp"
#include "muon_cases.hpp"

namespace {

// The singular values of a matrix, by rotations of its columns (Hestenes 1958); of its rows if those are fewer.
std::vector<double> singular_values(const std::vector<float>& of, gr::index_t rows, gr::index_t columns) {
  const gr::index_t n = std::min(rows, columns), length = std::max(rows, columns);
  std::vector<std::vector<double>> v(n, std::vector<double>(length));
  for (gr::index_t i = 0; i < rows; ++i)
    for (gr::index_t j = 0; j < columns; ++j) (rows < columns ? v[i][j] : v[j][i]) = double{of[i * columns + j]};
  const auto product = [&](gr::index_t a, gr::index_t b) {
    double sum = 0;
    for (gr::index_t i = 0; i < length; ++i) sum += v[a][i] * v[b][i];
    return sum;
  };
  for (int sweep = 0; sweep < 12; ++sweep)
    for (gr::index_t a = 0; a < n; ++a)
      for (gr::index_t b = a + 1; b < n; ++b) {
        const double angle = 0.5 * std::atan2(2 * product(a, b), product(a, a) - product(b, b));
        const double c = std::cos(angle), s = std::sin(angle);
        for (gr::index_t i = 0; i < length; ++i) {
          const double x = v[a][i], y = v[b][i];
          v[a][i] = c * x + s * y;
          v[b][i] = c * y - s * x;
        }
      }
  std::vector<double> values;
  for (gr::index_t i = 0; i < n; ++i) values.push_back(std::sqrt(product(i, i)));
  return values;
}

// A step of matrices, two of which have one shape.
template <class D>
struct counted_step {
  using device = D;
  struct net {
    gr::param<gr::on<D>, 13, 29> first, second;
    gr::param<gr::on<D>, 29, 5> third;
    GRADUS_MEMBERS(first, second, third)
  };
  net model;
  gr::context<D>& persistent;
  gr::context<D>& transient;
  gr::muon<float, D> optimizer;
  gr::loss_scaler<D> scaler;
  gr::tape<D> tape;
  gr::tensor<float, gr::shape<5, 13>, D> x;

  constexpr counted_step(gr::context<D>& kept, gr::context<D>& freed)
      : persistent(kept),
        transient(freed),
        optimizer(model),
        scaler(kept, {.growth_interval = 2}),
        tape(freed),
        x(gr::full<float, gr::shape<5, 13>>(kept, 0.5f, gr::category::input)) {
    gr::init(model, kept, gr::he_normal{.seed = 11});
  }
  constexpr void step() {
    const auto watched = tape.watch(x);
    const auto y =
        gr::matmul(gr::gelu(gr::matmul(watched, model.first)) * gr::matmul(watched, model.second), model.third);
    gr::backward(scaler.scale(gr::mean(y * y)));
    optimizer.unscale(scaler);
    optimizer.step(persistent);
    scaler.update(persistent);
  }
};

// All values and states.
template <class Model, class Optimizer>
std::vector<float> contents(gpu& g, Model& model, Optimizer& optimizer) {
  std::vector<float> all;
  gr::visit_params(model, [&](auto& p) {
    for (const float v : gr::to_host(p.value())) all.push_back(v);
  });
  optimizer.for_each_state(g.ctx, model, [&](const gr::named_state<gr::cuda>& s) {
    std::vector<float> values(s.size);
    gr::device_access<gr::cuda>::download(g.ctx, values.data(), s.data, s.size * sizeof(float));
    all.insert(all.end(), values.begin(), values.end());
  });
  return all;
}

// Values and states after six steps, the third of which overflows.
std::vector<float> six_steps(bool as_graph) {
  gpu g;
  gr::basic_pool_resource<gr::cuda_stream> pool(g.poisoned), kept(g.poisoned);
  gr::context<gr::cuda> transient{g.stream, pool}, persistent{g.stream, kept};  // a step has a few bytes of each
  counted_step<gr::cuda> t(persistent, transient);
  gr::step_graph graph{transient, t.tape, t.optimizer};
  for (int i = 0; i < 6; ++i) {
    const float input = i == 2 ? std::numeric_limits<float>::infinity() : 0.5f + 0.125f * static_cast<float>(i);
    gr::device_access<gr::cuda>::fill(g.ctx, t.x.data(), input, 5 * 13);
    t.optimizer.options.lr = 0.02 + 0.01 * i;
    if (as_graph) graph.run([&] { t.step(); });
    else t.step();
  }
  CHECK(t.optimizer.skipped() == 1);
  if (as_graph) CHECK(graph.made() == 1);
  return contents(g, t.model, t.optimizer);
}

using step = gr::op::muon_step;
// GPT-2's shapes, 12 of each: products of 12 or 6.
static_assert(step::batch<gr::cuda>(768, 768, 12) == 12);
static_assert(step::batch<gr::cuda>(768, 2304, 12) == 8);
static_assert(step::batch<gr::cuda>(768, 3072, 12) == 6 && step::batch<gr::cuda>(3072, 768, 12) == 6);
static_assert(6 * step::bytes<gr::cuda>(768, 3072) <= gr::cuda::orthogonal_batch_bytes);
static_assert(step::batch<gr::cuda>(8192, 8192, 12) == 1);
static_assert(step::batch<gr::cuda>(3, 4, 100) == step::most_in_batch);
static_assert(step::batch<gr::cpu>(768, 768, 12) == 1);

}  // namespace

TEST_CASE("Muon's directions are the CPU's up to the rounding to bf16, and come out the same each time") {
  if (no_gpu()) return;
  agree(&muon_on_cpu, [](auto& r) { muon_cases(r); });
}

TEST_CASE("the singular values of Muon's directions are in the range of the polynomial's iteration") {
  if (no_gpu()) return;
  const unsigned seed = gradus_test::fresh_seed();
  CAPTURE(seed);
  gpu g;
  runner<gr::cuda> r(g.ctx, seed);
  matrices<gr::on<gr::cuda>> net;
  gr::init(net, g.ctx, gr::normal_init{.stddev = 0});
  gr::muon optimizer{net, {.lr = 1}};
  gr::visit_params(net, [&](auto& p) { give_gradient(r, p); });
  optimizer.step(g.ctx);
  gr::for_each_param(net, [&](auto part, auto& p) {
    using S = typename std::remove_reference_t<decltype(p)>::shape;
    if constexpr (S::rank == 2) {
      CAPTURE(part);
      const double factor = std::sqrt(std::max(1.0, static_cast<double>(S::extent(1)) / S::extent(0)));
      // The polynomial's extremes are 0.682 and 1.202; the last iteration rounds.
      for (const double s : singular_values(gr::to_host(p.value()), S::extent(0), S::extent(1))) {
        CHECK(s / factor > 0.682 - 1.2 * 5.3 / 512);
        CHECK(s / factor < 1.203 + 1.2 * 5.3 / 512);
      }
    }
  });
}

TEST_CASE("Muon's steps do not depend on the type of the gradients") {
  if (no_gpu()) return;
  const unsigned seed = gradus_test::fresh_seed();
  CAPTURE(seed);
  gpu g;
  runner<gr::cuda> of_float(g.ctx, seed), of_bf16(g.ctx, seed);
  directions<gr::fp32>(of_float, "", true, 0);
  directions<gr::bf16_gradients>(of_bf16, "", true, 0);
  same_bits(of_float.records, of_bf16.records);
}

TEST_CASE("Muon's memory on a GPU is planned to the byte, at once for matrices of equal shape") {
  if (no_gpu()) return;
  const gr::step_summary plan = gr::summarize_step<counted_step<gr::cuda_meta>>();
  gpu g;
  gr::basic_stats_resource<gr::cuda_stream> stats(g.poisoned);
  gr::context<gr::cuda> ctx{g.stream, stats};
  counted_step<gr::cuda> t(ctx, ctx);
  t.step();
  stats.reset_peak();
  t.step();
  CHECK(stats.all().live == plan.persistent_bytes);
  CHECK(stats.all().peak == plan.peak_bytes);
  CHECK(stats.of(gr::category::temporary).live == 2 * (2 * 16 * 32 + 16 * 16) * sizeof(gr::bf16));
}

TEST_CASE("a step of Muon that is skipped, and a matrix without a gradient, change no value and no state") {
  if (no_gpu()) return;
  const unsigned seed = gradus_test::fresh_seed();
  CAPTURE(seed);
  gpu g;
  runner<gr::cuda> r(g.ctx, seed);
  matrices<gr::on<gr::cuda>> net;
  gr::init(net, g.ctx, gr::normal_init{.seed = 3, .stddev = 1});
  gr::muon optimizer{net};
  gr::loss_scaler scaler{g.ctx};
  const auto step = [&](bool overflows, bool all) {
    gr::visit_params(net, [&](auto& p) { give_gradient(r, p); });
    if (overflows) {
      const std::vector<float> bad(29, std::numeric_limits<float>::infinity());
      net.vector.slot().give(gr::from_host<float, gr::shape<29>>(g.ctx, bad.data(), gr::category::gradient));
    }
    if (!all) net.wide[1].clear_gradient();
    optimizer.unscale(scaler);
    optimizer.step(g.ctx);
    scaler.update(g.ctx);
  };
  step(false, true);
  const auto before = contents(g, net, optimizer);
  const auto second = gr::to_host(net.wide[1].value()), third = gr::to_host(net.wide[2].value());
  step(true, true);
  CHECK(contents(g, net, optimizer) == before);
  step(false, false);
  CHECK(gr::to_host(net.wide[1].value()) == second);
  CHECK(gr::to_host(net.wide[2].value()) != third);
}

TEST_CASE("a step graph with Muon has the bits of eager steps, with a changing rate and a step that is skipped") {
  if (no_gpu()) return;
  CHECK(six_steps(true) == six_steps(false));
}
