// A step counts for the parameters that have a gradient in it, and for no others.
#include <doctest/doctest.h>

#include <limits>
#include <vector>

#include <gradus/planning.hpp>

namespace gr = gradus;

namespace {

using X = gr::on<gr::cpu>;

struct model {
  gr::param<X, 7> always;
  gr::param<X, 3, 37> matrix;
  gr::param<X, 5> vector;
  gr::param<X, 4100> large;  // its moments may be of 8 bits
  GRADUS_MEMBERS(always, matrix, vector, large)
};

template <class MakeOptimizer>
struct world {
  gr::stream stream;
  gr::host_resource heap;
  gr::context<gr::cpu> ctx{stream, heap};
  model net;
  gr::loss_scaler<gr::cpu> scaler{ctx};
  decltype(MakeOptimizer{}(std::declval<model&>())) optimizer = MakeOptimizer{}(net);

  world() { gr::init(net, ctx, gr::normal_init{.seed = 3, .stddev = 1}); }
  template <class P>
  void give(P& p, unsigned round) {
    auto g = gr::empty<float, typename P::shape>(ctx);
    const gr::random_key key{.seed = 9, .step = round};
    for (gr::index_t i = 0; i < g.size; ++i) g.data()[i] = gr::uniform_float(key.words(i)[0]) - 0.4f;
    p.slot().give(std::move(g));
  }
  void give_late(unsigned round) {
    give(net.matrix, round);
    give(net.vector, round);
    give(net.large, round);
  }
  std::vector<float> late_values() const {
    std::vector<float> all;
    const auto add = [&](const auto& p) {
      for (const float v : p.value().values()) all.push_back(v);
    };
    add(net.matrix), add(net.vector), add(net.large);
    return all;
  }
};

struct with_adamw {
  auto operator()(auto& m) const { return gr::adamw{m, {.lr = 1e-2, .beta2 = 0.999}}; }
};
struct with_any_precision {
  auto operator()(auto& m) const { return gr::any_precision_adamw{m, {.lr = 1e-2}}; }
};
struct with_8bit {
  auto operator()(auto& m) const { return gr::adamw_8bit{m, {.lr = 1e-2}}; }
};
struct with_adafactor {
  auto operator()(auto& m) const { return gr::adafactor{m}; }
};
struct with_muon {
  auto operator()(auto& m) const { return gr::muon{m}; }
};

}  // namespace

TEST_CASE_TEMPLATE("parameters whose first gradient comes late take the steps of those that have one from the start",
                   Make, with_adamw, with_any_precision, with_8bit, with_adafactor, with_muon) {
  world<Make> early, late;
  for (unsigned step = 0; step < 20; ++step) {
    late.give(late.net.always, step);
    late.optimizer.step(late.ctx);
  }
  for (unsigned step = 0; step < 4; ++step) {
    early.give_late(step);
    early.optimizer.step(early.ctx);
    if (step == 2) late.optimizer.step(late.ctx);  // one more without them
    late.give_late(step);
    late.optimizer.step(late.ctx);
    CHECK(early.late_values() == late.late_values());
  }
  CHECK(late.optimizer.steps() == 25);
  CHECK(late.optimizer.steps_by_parameter() == std::vector<std::size_t>{20, 4, 4, 4});
  CHECK(early.optimizer.steps_by_parameter() == std::vector<std::size_t>{0, 4, 4, 4});
}

TEST_CASE(
    "a step that is skipped because a loss overflowed counts for no parameter, whether it has a gradient or not") {
  world<with_adamw> plain, scaled;
  const auto step = [](auto& w, unsigned round, bool with_late, bool overflows) {
    w.give(w.net.always, round);
    if (with_late) w.give_late(round);
    if (overflows)
      w.net.always.slot().give(gr::full<float, gr::shape<7>>(w.ctx, std::numeric_limits<float>::infinity()));
    w.optimizer.unscale(w.scaler);
    w.optimizer.step(w.ctx);
  };
  scaled.scaler.set_value(1);
  plain.scaler.set_value(1);
  for (unsigned round = 0; round < 8; ++round) {
    const bool with_late = round >= 3;
    step(plain, round, with_late, false);
    if (round % 2 == 1) step(scaled, 100 + round, with_late, true);
    if (round == 4) step(scaled, 200, false, true);
    step(scaled, round, with_late, false);
  }
  CHECK(plain.late_values() == scaled.late_values());
  CHECK(scaled.optimizer.skipped() == 5);
  CHECK(scaled.optimizer.steps() == 8);
  CHECK(scaled.optimizer.steps_by_parameter() == std::vector<std::size_t>{8, 5, 5, 5});
}

TEST_CASE("counts of steps are set for all parameters alike, or for each") {
  world<with_adamw> w;
  w.give(w.net.always, 0);
  w.optimizer.step(w.ctx);
  w.optimizer.set_steps(4);
  CHECK(w.optimizer.steps_by_parameter() == std::vector<std::size_t>{4, 4, 4, 4});
  w.optimizer.set_steps(w.ctx, 6, {6, 0, 5, 6});
  CHECK(w.optimizer.steps() == 6);
  CHECK(w.optimizer.steps_by_parameter() == std::vector<std::size_t>{6, 0, 5, 6});
  w.give(w.net.vector, 0);
  w.optimizer.step(w.ctx);
  CHECK(w.optimizer.steps_by_parameter() == std::vector<std::size_t>{6, 0, 6, 6});
  CHECK_THROWS_AS(w.optimizer.set_steps(w.ctx, 6, {6, 0, 5}), gr::error);
  CHECK_THROWS_AS(w.optimizer.set_steps(w.ctx, 6, {6, 0, 5, 7}), gr::error);
}

namespace {

// Half of the model is frozen.
template <class D>
struct partly_frozen {
  using device = D;
  struct mlp {
    gr::nn::linear<gr::on<D>, 33, 131> hidden;
    gr::nn::linear<gr::on<D>, 131, 7> output;
    GRADUS_MEMBERS(hidden, output)
  };
  mlp net;
  gr::context<D>& persistent;
  gr::context<D>& transient;
  gr::adamw<float, D> optimizer;
  gr::tape<D> tape;

  constexpr partly_frozen(gr::context<D>& kept, gr::context<D>& freed)
      : persistent(kept), transient(freed), optimizer(net), tape(freed) {
    gr::init(net, kept, gr::he_normal{.seed = 11});
  }
  constexpr void step() {
    auto x = gr::full<float, gr::shape<5, 131>>(transient, 0.5f, gr::category::input);
    auto y = net.output(tape.watch(std::move(x)));
    gr::backward(gr::mean(y * y));
    optimizer.step(persistent);
  }
};

}  // namespace

TEST_CASE("a plan has what a step in which some parameters have no gradient takes, to the byte") {
  constexpr gr::step_summary plan = gr::summarize_step<partly_frozen<gr::meta>>();
  gr::stream stream;
  gr::host_resource heap;
  gr::stats_resource stats(heap);
  gr::context<gr::cpu> ctx{stream, stats};
  partly_frozen<gr::cpu> t(ctx, ctx);
  t.step();
  stats.reset_peak();
  t.step();
  CHECK(stats.all().live == plan.persistent_bytes);
  CHECK(stats.all().peak == plan.peak_bytes);
  CHECK(stats.of(gr::category::optimizer_state).live == 8 * gr::parameter_count(t.net) + 4 * sizeof(double));
}
