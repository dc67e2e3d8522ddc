// Results that checkpoint regions offload to pinned memory: the bits of a step that keeps them, on time and in the
// planned bytes, also in a captured step.
#include <gradus/memory/stats_resource.hpp>
#include <gradus/nn/transformer.hpp>
#include <gradus/plan/placement.hpp>
#include <gradus/plan/step_summary.hpp>

#include "device.hpp"

namespace {

constexpr std::uint64_t all_results = ~std::uint64_t{0};

/// Four blocks with dropout.
template <class D, class P>
struct training {
  using device = D;
  using compute = typename P::compute;
  struct model {
    std::array<gr::nn::mlp<gr::on<D, P>, 16>, 4> blocks;
    GRADUS_MEMBERS(blocks)
  };
  model net;
  gr::context<D>& persistent;
  gr::context<D>& transient;
  gr::region_schedule regions;
  gr::adamw<float, D> optimizer;
  gr::tape<D> tape;
  gr::tensor<float, gr::shape<>, D> loss;

  constexpr training(gr::context<D>& kept, gr::context<D>& freed, gr::region_schedule schedule)
      : persistent(kept),
        transient(freed),
        regions(std::move(schedule)),
        optimizer(net),
        tape(freed, 17),
        loss(gr::zeros<float, gr::shape<>>(kept)) {
    gr::init(net, kept, gr::he_normal{.seed = 11});
  }
  constexpr void step() {
    auto x = gr::full<compute, gr::shape<13, 16>>(transient, compute(0.5f), gr::category::input);
    const auto y = gr::chain(net.blocks, tape.watch(std::move(x)), regions,
                             [](const auto& block, auto v) { return v + gr::dropout(block(gr::tanh(v)), 0.2); });
    const auto found = gr::mean(gr::cast<float>(y * y));
    gr::backward(found);
    if constexpr (D::computes)
      gr::device_access<D>::copy(transient, loss.data(), std::as_const(found.value()).data(), sizeof(float));
    optimizer.step(persistent);
  }
};

/// Losses of four steps, and the weights after them.
template <class Training, class Submit>
std::vector<float> four_steps(Training& t, const Submit& submit) {
  std::vector<float> found;
  for (int i = 0; i < 4; ++i) {
    submit();
    found.push_back(gr::item(t.loss));
  }
  gr::visit_params(t.net, [&](const auto& p) {
    for (const float v : gr::to_host(gr::cast<float>(p.value()))) found.push_back(v);
  });
  return found;
}
template <class P>
std::vector<float> eager(gpu& g, const gr::region_schedule& schedule) {
  training<gr::cuda, P> t(g.ctx, g.ctx, schedule);
  return four_steps(t, [&] { t.step(); });
}

template <class P>
void check_bits() {
  gpu g;
  const auto expected = eager<P>(g, {});
  CHECK(eager<P>(g, gr::region_schedule::every_block(4, all_results)) == expected);
  CHECK(eager<P>(g, gr::region_schedule::every_block(4, 0, all_results)) == expected);
  CHECK(eager<P>(g, gr::region_schedule::every_block(4, 0b1, 0b110)) == expected);
  gr::region_schedule nested;
  nested.parts = {{0, 0, true, 0, {}, all_results}, {1, 3, true, 0, {{1, 1, true, 0, {}, all_results}, {2, 3}}}};
  CHECK(eager<P>(g, nested) == expected);
}

}  // namespace

TEST_CASE("a step with results in pinned memory has the bits of one that keeps them") {
  if (no_gpu()) return;
  SUBCASE("fp32") { check_bits<gr::fp32>(); }
  SUBCASE("bf16_mixed") { check_bits<gr::bf16_mixed>(); }
}

TEST_CASE("it takes the planned device and host memory, to the byte, eager and captured") {
  if (no_gpu()) return;
  const auto schedule = gr::region_schedule::every_block(4, 0, all_results);
  const gr::step_trace trace = gr::trace_step<training<gr::cuda_meta, gr::fp32>>(schedule);
  const gr::step_summary plan = gr::summarize(trace);
  CHECK(plan.host_bytes > 0);
  gpu g;
  const auto expected = eager<gr::fp32>(g, {});
  gr::pinned_resource pinned;
  gr::basic_pool_resource<gr::stream> pool(pinned, 1 << 16);
  gr::stats_resource host(pool);
  gr::basic_planned_resource<gr::cuda_stream> memory(gr::make_plan(trace), g.poisoned, g.stream);
  gr::basic_stats_resource<gr::cuda_stream> device(memory);
  gr::context<gr::cuda> transient{g.stream, device};
  gr::offload_to(transient, host);
  training<gr::cuda, gr::fp32> t(g.ctx, transient, schedule);
  SUBCASE("eager") {
    CHECK(four_steps(t, [&] { t.step(); }) == expected);
  }
  SUBCASE("captured") {
    gr::step_graph graph{transient, t.tape, t.optimizer};
    CHECK(four_steps(t, [&] { graph.run([&] { t.step(); }); }) == expected);
    CHECK(graph.captures() >= 1);
  }
  memory.check();
  CHECK(memory.live_blocks() == 0);
  CHECK(device.all().peak == plan.peak_bytes - plan.persistent_bytes);
  CHECK(host.all().peak == plan.host_bytes);
  CHECK(host.all().live == 0);
}

namespace {
template <class X>
struct one_layer {
  gr::param<X, 13, 5> weight;
  gr::param<X, 5> bias;
  GRADUS_MEMBERS(weight, bias)
  auto operator()(const auto& x) const { return gr::gelu(gr::linear(x, weight, bias)); }
};
}  // namespace

TEST_CASE("optimizer states in pinned memory of the host: the bits of those in the GPU's memory") {
  if (no_gpu()) return;
  std::vector<std::vector<float>> found;
  for (const bool on_host : {false, true}) {
    gpu g;
    gr::pinned_gpu_resource pinned;
    gr::basic_stats_resource<gr::cuda_stream> counted(pinned);
    gr::context<gr::cuda> host{g.stream, counted};
    one_layer<gr::on<gr::cuda>> net;
    gr::init(net, g.ctx, gr::he_normal{.seed = 12});
    gr::tape tape{g.ctx};
    gr::adamw optimizer{net};
    const auto x = gr::normal<float, gr::shape<9, 13>>(g.ctx, {.seed = 1});
    for (int i = 0; i < 3; ++i) {
      gr::backward(gr::sum(net(tape.watch(x))));
      optimizer.step(on_host ? host : g.ctx);
    }
    CHECK((counted.of(gr::category::optimizer_state).live > 0) == on_host);
    found.push_back(gr::to_host(net.weight.value()));
  }
  CHECK(found[0] == found[1]);
}
