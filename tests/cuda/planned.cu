// A step on the GPU in memory that was planned on meta: every request of the step is in the plan.
#include <gradus/plan/placement.hpp>
#include <gradus/plan/step_summary.hpp>

#include "device.hpp"

namespace {

template <class D>
struct planned_step {
  using device = D;
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
  constexpr void abandon() {
    tape.clear();
    optimizer.clear_gradients();
  }
  constexpr void step() {
    auto x = gr::full<float, gr::shape<37, 13>>(transient, 0.5f, gr::category::input);
    auto y = gr::gelu(gr::linear(tape.watch(std::move(x)), model.w, model.b));
    gr::backward(gr::mean(y * y));
    norm = optimizer.clip(transient, 0.01).value();
    optimizer.step(persistent);
  }
};

/// Refuses one request.
class refusing_resource final : public gr::resource_adaptor<gr::cuda_stream> {
 public:
  explicit refusing_resource(gr::cuda_resource& from) : resource_adaptor(from) {}
  int requests = 0, refused = -1;  ///< how many there were; which one is refused

 private:
  void* do_allocate(const gr::memory_request& request, gr::cuda_stream& on) override {
    if (requests++ == refused) throw gr::shortage("refusing_resource", request, {});
    return this->from().allocate(request, on);
  }
  void do_deallocate(void* memory, const gr::memory_request& request, gr::cuda_stream& on) noexcept override {
    this->from().deallocate(memory, request, on);
  }
};

}  // namespace

TEST_CASE("a step that any one request for GPU memory ends leaves nothing behind, and the next one is good") {
  if (no_gpu()) return;
  gpu g;
  refusing_resource some(g.poisoned);
  gr::context<gr::cuda> ctx{g.stream, some};
  std::vector<float> expected;
  {
    planned_step<gr::cuda> plain(g.ctx, g.ctx);
    plain.step();
    expected = gr::to_host(plain.model.w.value());
  }
  int refusals = 0;
  for (bool refused = true; refused; ++refusals) {
    planned_step<gr::cuda> t(g.ctx, ctx);
    some.requests = 0;
    some.refused = refusals;
    refused = false;
    try {
      t.step();
    } catch (const gr::out_of_memory&) {
      refused = true;
      t.abandon();
      some.refused = -1;
      t.step();
    }
    CHECK(gr::to_host(t.model.w.value()) == expected);
  }
  CHECK(refusals > 5);
}

TEST_CASE("blocks of a planned step lie where the GPU's libraries want them, and a CPU's plan is refused") {
  if (no_gpu()) return;
  gpu g;
  using planned_memory = gr::basic_planned_resource<gr::cuda_stream>;
  const gr::memory_plan plan = gr::make_plan(gr::trace_step<planned_step<gr::cuda_meta>>());
  for (const gr::planned_allocation& a : plan.allocations) CHECK(a.offset % gr::cuda_stream::alignment == 0);
  CHECK(planned_memory(plan, g.memory, g.stream).bytes() == plan.bytes);
  const gr::memory_plan of_cpu = gr::make_plan(gr::trace_step<planned_step<gr::meta>>());
  CHECK_THROWS_WITH_AS(planned_memory(of_cpu, g.memory, g.stream),
                       doctest::Contains("aligns blocks to 64 bytes, and this device needs 256"), gr::error);
}

TEST_CASE(
    "a step that clips its gradients asks the GPU's planned memory for what was planned, from the first step on") {
  if (no_gpu()) return;
  gpu g;
  gr::basic_planned_resource<gr::cuda_stream> planned(gr::make_plan(gr::trace_step<planned_step<gr::cuda_meta>>()),
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
