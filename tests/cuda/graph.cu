// Steps as a graph that is captured once: what the host changes from step to step reaches the GPU all the same.
#include <gradus/plan/placement.hpp>
#include <gradus/plan/step_summary.hpp>
#include <memory>

#include "../support/message_of.hpp"
#include "device.hpp"

namespace {

constexpr gr::index_t rows = 6, batches = 2;

/// Two batches with dropout, clipping and an optimizer's step; in fp16_mixed the loss is scaled.
template <class D, class P, template <class, class, class> class Optimizer>
struct lasting_step {
  using device = D;
  using X = gr::on<D, P>;
  struct model {
    gr::param<X, 13, 29> w1;
    gr::param<X, 29> b1;
    gr::param<X, 29, 5> w2;
    GRADUS_MEMBERS(w1, b1, w2)
    constexpr auto operator()(const auto& x) const { return gr::matmul(gr::gelu(gr::linear(x, w1, b1)), w2); }
    constexpr auto operator()(const auto& x, double p) const {
      return gr::matmul(gr::dropout(gr::gelu(gr::linear(x, w1, b1)), p), w2);
    }
  };
  using inputs = gr::tensor<typename P::compute, gr::shape<rows, 13>, D>;
  using targets = gr::tensor<std::int32_t, gr::shape<rows>, D>;
  using loss_type = typename P::reduce;
  static constexpr bool scaled = std::is_same_v<typename P::compute, gr::f16>;

  model net;
  gr::context<D>& kept;
  gr::context<D>& freed;
  Optimizer<typename P::store, D, typename P::gradient> optimizer;
  gr::loss_scaler<D> scaler;
  gr::tape<D> tape;
  inputs x[batches];
  targets y[batches];
  gr::tensor<loss_type, gr::shape<batches>, D> losses;
  double dropped = 0.25;
  bool frozen = false;  // w1 and b1 have no gradient in a step

  constexpr lasting_step(gr::context<D>& persistent, gr::context<D>& transient)
      : kept(persistent),
        freed(transient),
        optimizer(net),
        scaler(persistent, {.growth_interval = 2}),
        tape(transient, 17),
        losses(gr::zeros<loss_type, gr::shape<batches>>(persistent)) {
    gr::init(net, kept, gr::he_normal{.seed = 11});
    if constexpr (std::is_same_v<typename P::store, gr::bf16>) optimizer.set_rounding(gr::rounding::stochastic, 3);
    for (gr::index_t b = 0; b < batches; ++b) {
      x[b] = gr::zeros<typename P::compute, gr::shape<rows, 13>>(kept, gr::category::input);
      y[b] = gr::zeros<std::int32_t, gr::shape<rows>>(kept, gr::category::input);
    }
  }
  constexpr void step() {
    for (gr::index_t b = 0; b < batches; ++b) {
      const auto loss = gr::cross_entropy(net(tape.watch(x[b]), dropped), y[b]);
      static_assert(std::is_same_v<gr::value_of_t<decltype(loss)>, loss_type>);
      if constexpr (D::computes)
        gr::device_access<D>::copy(freed, losses.data() + b, std::as_const(loss.value()).data(), sizeof(loss_type));
      if constexpr (scaled) gr::backward(scaler.scale(loss), 0.5f);
      else gr::backward(loss, 0.5f);
    }
    if constexpr (scaled) optimizer.unscale(scaler);
    static_cast<void>(optimizer.clip(freed, 1.0));
    if (frozen) {
      net.w1.clear_gradient();
      net.b1.clear_gradient();
    }
    optimizer.step(kept);
    if constexpr (scaled) scaler.update(kept);
  }
};

/// Fills what a step reads, where it is; in fp16_mixed steps 3 and 4 overflow.
template <class P, template <class, class, class> class O>
void load(lasting_step<gr::cuda, P, O>& s, runner<gr::cuda>& r, int step) {
  using T = typename P::compute;
  for (gr::index_t b = 0; b < batches; ++b) {
    auto values = r.template random<T>(rows * 13);
    if (s.scaled && (step == 3 || step == 4)) values[5] = T(60000.0f);
    const std::vector<std::int32_t> classes{step % 5, 1, 4, 0, 2, 3};
    gr::device_access<gr::cuda>::upload(s.kept, s.x[b].data(), values.data(), s.x[b].bytes);
    gr::device_access<gr::cuda>::upload(s.kept, s.y[b].data(), classes.data(), s.y[b].bytes);
    s.kept.stream().synchronize();  // the vectors end here
  }
}

/// Six steps with other inputs and another rate each, and what the model makes of an input after some: all losses,
/// outputs and weights.
template <class Step, class Submit>
std::vector<double> six_steps(gpu& g, Step& s, unsigned seed, const Submit& submit) {
  runner<gr::cuda> r(g.ctx, seed);
  std::vector<double> found;
  const auto keep = [&](const auto& tensor) {
    for (const auto v : gr::to_host(tensor)) found.push_back(static_cast<double>(v));
  };
  const auto usual = s.optimizer.options;
  for (int step = 0; step < 6; ++step) {
    load(s, r, step);
    const double share = 0.5 + 0.25 * step;
    s.optimizer.options.lr = (usual.lr == 0 ? 1e-2 : usual.lr) * share;
    if constexpr (requires { s.optimizer.options.adamw; }) s.optimizer.options.adamw.lr = usual.adamw.lr * share;
    submit(step);
    keep(s.losses);
    if (step % 2 == 0) keep(s.net(s.x[1]));  // which makes copies of the weights that a step finds, or does not
  }
  gr::visit_params(s.net, [&](auto& p) { keep(p.value()); });
  keep(s.scaler.value());
  found.push_back(static_cast<double>(s.optimizer.steps()));
  found.push_back(static_cast<double>(s.optimizer.calls()));
  found.push_back(static_cast<double>(s.tape.recordings()));
  return found;
}
constexpr auto no_change = [](auto&, int) {};
/// The same of eager steps; change(s, step) comes before each.
template <class P, template <class, class, class> class O, class Change>
std::vector<double> eager_steps(gpu& g, unsigned seed, const Change& change) {
  lasting_step<gr::cuda, P, O> s(g.ctx, g.ctx);
  return six_steps(g, s, seed, [&](int step) {
    change(s, step);
    s.step();
  });
}

/// A step in planned memory.
template <class P, template <class, class, class> class O>
struct planned {
  gr::basic_planned_resource<gr::cuda_stream> memory;
  gr::context<gr::cuda> transient;
  lasting_step<gr::cuda, P, O> s;
  explicit planned(gpu& g)
      : memory(gr::make_plan(gr::trace_step<lasting_step<gr::cuda_meta, P, O>>()), g.poisoned, g.stream),
        transient(g.stream, memory),
        s(g.ctx, transient) {}
};

template <class P, template <class, class, class> class O>
void lasts() {
  const unsigned seed = gradus_test::fresh_seed();
  CAPTURE(seed);
  gpu g;
  const std::vector<double> expected = eager_steps<P, O>(g, seed, no_change);
  planned<P, O> p(g);
  gr::step_graph graph{p.transient, p.s.tape, p.s.optimizer};
  CHECK(six_steps(g, p.s, seed, [&](int) { graph.run([&] { p.s.step(); }); }) == expected);
  CHECK(graph.captures() == 1);
  CHECK(graph.made() == 1);
}

using plain = planned<gr::fp32, gr::adamw>;

}  // namespace

TEST_CASE(
    "a step that is captured once has the bits of eager steps: rates, counts, draws and copies of weights move on") {
  if (no_gpu()) return;
  SUBCASE("adamw, fp32") { lasts<gr::fp32, gr::adamw>(); }
  SUBCASE("adamw, with copies of the weights in bf16") { lasts<gr::bf16_mixed, gr::adamw>(); }
  SUBCASE("adamw, with a scaled loss that overflows") { lasts<gr::fp16_mixed, gr::adamw>(); }
  SUBCASE("adamw, rounded stochastically") { lasts<gr::bf16_pure, gr::adamw>(); }
  SUBCASE("adamw_8bit") { lasts<gr::bf16_pure, gr::adamw_8bit>(); }
  SUBCASE("adafactor") { lasts<gr::bf16_pure, gr::adafactor>(); }
  SUBCASE("muon") { lasts<gr::bf16_pure, gr::muon>(); }
  SUBCASE("lion") { lasts<gr::fp32, gr::lion>(); }
}

TEST_CASE(
    "a captured step is captured again when scratch memory has moved, or when it is told to; counts may be set back"
    "on") {
  if (no_gpu()) return;
  const unsigned seed = gradus_test::fresh_seed();
  CAPTURE(seed);
  gpu g;
  plain p(g);
  gr::step_graph graph{p.transient, p.s.tape, p.s.optimizer};
  const auto step = [&] { p.s.step(); };
  SUBCASE("scratch memory that moved") {
    const auto found = six_steps(g, p.s, seed, [&](int i) {
      if (i == 3) static_cast<void>(gr::scratch<char>(p.transient, std::size_t{40} << 20));
      graph.run(step);
    });
    CHECK(found == eager_steps<gr::fp32, gr::adamw>(g, seed, no_change));
    CHECK(graph.captures() == 2);
  }
  SUBCASE("something else that changed") {
    const auto drop_more = [](auto& of, int i) {
      if (i >= 3) of.dropped = 0.5;
    };
    const auto found = six_steps(g, p.s, seed, [&](int i) {
      drop_more(p.s, i);
      if (i == 3) graph.renew();
      graph.run(step);
    });
    CHECK(found == eager_steps<gr::fp32, gr::adamw>(g, seed, drop_more));
    CHECK(graph.captures() == 2);
  }
  SUBCASE("an eager step") {
    const auto found = six_steps(g, p.s, seed, [&](int i) {
      if (i == 3) step();
      else graph.run(step);
    });
    CHECK(found == eager_steps<gr::fp32, gr::adamw>(g, seed, no_change));
    CHECK(graph.captures() == 1);
  }
  SUBCASE("counts that are set back") {
    const auto set_back = [](auto& of, int i) {
      if (i != 4) return;
      of.optimizer.set_steps(0);
      of.tape.set_random(17, 0);
    };
    const auto found = six_steps(g, p.s, seed, [&](int i) {
      set_back(p.s, i);
      graph.run(step);
    });
    CHECK(found == eager_steps<gr::fp32, gr::adamw>(g, seed, set_back));
    CHECK(graph.captures() == 1);
  }
}

TEST_CASE("a captured step counts for the parameters that have a gradient in it") {
  if (no_gpu()) return;
  const unsigned seed = gradus_test::fresh_seed();
  CAPTURE(seed);
  gpu g;
  bool frozen_from_the_start = false;
  SUBCASE("frozen from the start") { frozen_from_the_start = true; }
  SUBCASE("frozen after a step") {}
  const auto freeze = [&](auto& of, int i) { of.frozen = i < 4 && (frozen_from_the_start || i > 0); };
  plain p(g);
  gr::step_graph graph{p.transient, p.s.tape, p.s.optimizer};
  const auto found = six_steps(g, p.s, seed, [&](int i) {
    freeze(p.s, i);
    if (i == 4) graph.renew();
    graph.run([&] { p.s.step(); });
  });
  CHECK(found == eager_steps<gr::fp32, gr::adamw>(g, seed, freeze));
  CHECK(graph.captures() == 2);
  const std::size_t late = frozen_from_the_start ? 2 : 3;
  CHECK(p.s.optimizer.steps_by_parameter() == std::vector<std::size_t>{late, late, 6});
}

TEST_CASE(
    "a step outside of planned memory, or whose tape and optimizer the graph does not know, is captured each time") {
  if (no_gpu()) return;
  const unsigned seed = gradus_test::fresh_seed();
  CAPTURE(seed);
  gpu g;
  const std::vector<double> expected = eager_steps<gr::fp32, gr::adamw>(g, seed, no_change);
  {
    gr::basic_pool_resource<gr::cuda_stream> pool(g.poisoned);
    gr::context<gr::cuda> transient{g.stream, pool};
    lasting_step<gr::cuda, gr::fp32, gr::adamw> s(g.ctx, transient);
    gr::step_graph graph{transient, s.tape, s.optimizer};
    CHECK(six_steps(g, s, seed, [&](int) { graph.run([&] { s.step(); }); }) == expected);
    CHECK(graph.captures() == 5);
  }
  {
    plain p(g);
    gr::step_graph graph{p.transient};
    CHECK(six_steps(g, p.s, seed, [&](int) { graph.run([&] { p.s.step(); }); }) == expected);
    CHECK(graph.captures() == 5);
  }
}

TEST_CASE(
    "a graph refuses a step that draws without its tape, or takes an optimizer it was not given, or changes its "
    "settings") {
  if (no_gpu()) return;
  gpu g;
  const auto says = [&](auto&& make_graph, const auto& also) {
    plain p(g);
    auto graph = make_graph(p);
    const auto step = [&] {
      p.s.step();
      also(p.s);
    };
    graph->run(step);
    const std::string text = gradus_test::message_of([&] { graph->run(step); });
    p.s.tape.clear();
    p.s.optimizer.clear_gradients();
    p.s.step();  // the GPU is as it was
    return text;
  };
  const auto nothing = [](auto&) {};
  CHECK(says([](plain& p) { return std::make_unique<gr::step_graph>(p.transient, p.s.optimizer); }, nothing)
            .starts_with("step_graph: the step draws random numbers"));
  CHECK(says([](plain& p) { return std::make_unique<gr::step_graph>(p.transient, p.s.tape); }, nothing)
            .starts_with("step_graph: the step runs an optimizer that the graph was not given"));
  CHECK(says([](plain& p) { return std::make_unique<gr::step_graph>(p.transient, p.s.tape, p.s.optimizer); },
             [](auto& s) {
               s.optimizer.options.lr *= 2;
               s.step();
             })
            .starts_with("step_graph: the step itself changes settings"));
}

TEST_CASE("a graph is not launched again over tensors that are still in use") {
  if (no_gpu()) return;
  gpu g;
  plain p(g);
  gr::step_graph graph{p.transient, p.s.tape, p.s.optimizer};
  const auto step = [&] { p.s.step(); };
  for (int i = 0; i < 3; ++i) graph.run(step);
  {
    const auto held = p.s.net(p.s.tape.watch(p.s.x[0]), 0.25);
    CHECK(gradus_test::message_of([&] { graph.run(step); }).ends_with("destroy their tensors before run()"));
    p.s.tape.clear();
  }
  graph.run(step);
  CHECK(graph.captures() == 1);
}
