// A step on the GPU in memory that was planned on meta: every request of the step is in the plan.
#include <gradus/meta/placement.hpp>
#include <gradus/meta/plan.hpp>

#include "device.hpp"

namespace {

template <class D>
struct planned_step {
  struct net {
    gr::param<gr::on<D>, 13, 29> w;
    gr::param<gr::on<D>, 29> b;
    GRADUS_MEMBERS(w, b)
  };
  net model;
  gr::context<D>& persistent;
  gr::context<D>& transient;
  gr::adamw<float, D> optimizer;
  gr::tape<D> tape;
  double norm = 0;

  constexpr planned_step(gr::context<D>& kept, gr::context<D>& freed)
      : persistent(kept), transient(freed), optimizer(model), tape(freed) {
    gr::init(model, kept, gr::he_normal{.seed = 11});
  }
  constexpr void step() {
    auto x = gr::full<float, gr::shape<37, 13>>(transient, 0.5f, gr::category::input);
    auto y = gr::gelu(gr::linear(tape.watch(std::move(x)), model.w, model.b));
    gr::backward(gr::mean(y * y));
    norm = optimizer.clip(transient, 0.01);
    optimizer.step(persistent);
  }
};

}  // namespace

TEST_CASE(
    "a step that clips its gradients asks the GPU's planned memory for what was planned, from the first step on") {
  if (no_gpu()) return;
  gpu g;
  gr::basic_planned_resource<gr::cuda_stream> planned(gr::make_plan(gr::trace_step<planned_step<gr::meta>>()),
                                                      g.poisoned, g.stream);
  gr::context<gr::cuda> transient{g.stream, planned};
  planned_step<gr::cuda> in_plan(g.ctx, transient);
  planned_step<gr::cuda> without(g.ctx, g.ctx);
  for (int i = 0; i < 3; ++i) {
    in_plan.step();
    without.step();
    planned.check();
    CHECK(planned.live_blocks() == 0);
    CHECK(in_plan.norm > 0);
    CHECK(in_plan.norm == without.norm);
  }
  CHECK(gr::to_host(in_plan.model.w.value()) == gr::to_host(without.model.w.value()));
}
