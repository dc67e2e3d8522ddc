#include <gradus/plan/placement.hpp>
#include <gradus/plan/step_summary.hpp>

#include "device.hpp"
#include "images_cases.hpp"

TEST_CASE("pooling and norms over channels on the GPU have the CPU's values, gradients and running states") {
  if (no_gpu()) return;
  agree(&images_on_cpu, [](auto& r) { images_cases(r); });
}

namespace {

/// A step of a batch norm in a checkpoint region, of inputs that stay where they are.
template <class D>
struct norm_step {
  using device = D;
  gr::nn::batch_norm<gr::on<D>, 4> norm;
  gr::context<D>& kept;
  gr::sgd<float, D> optimizer{norm};
  gr::tape<D> tape;
  gr::tensor<float, gr::shape<5, 4, 3, 3>, D> x;

  constexpr norm_step(gr::context<D>& persistent, gr::context<D>& transient) : kept(persistent), tape(transient) {
    gr::init(norm, kept, gr::normal_init{});
    x = gr::normal<float, gr::shape<5, 4, 3, 3>>(kept, {.seed = 2}, 1, 3);
  }
  constexpr void step() {
    const auto y = gr::checkpoint([this](const auto& v) { return gr::max_pool2d<two>(norm(v)); }, tape.watch(x));
    gr::backward(gr::mean(y * y));
    optimizer.step(kept);
  }
  std::vector<float> values() const {
    std::vector<float> all;
    gr::for_each_tensor(norm, [&](auto, const auto& t) {
      for (const float v : gr::to_host(t.value())) all.push_back(v);
    });
    return all;
  }
};

}  // namespace

TEST_CASE("each launch of a captured step updates the running state once, in planned memory") {
  if (no_gpu()) return;
  gpu g;
  norm_step<gr::cuda> eager(g.ctx, g.ctx);
  for (int i = 0; i < 4; ++i) eager.step();
  gr::basic_planned_resource<gr::cuda_stream> memory(gr::make_plan(gr::trace_step<norm_step<gr::cuda_meta>>()),
                                                     g.poisoned, g.stream);
  gr::context<gr::cuda> transient(g.stream, memory);
  norm_step<gr::cuda> captured(g.ctx, transient);
  gr::step_graph graph{transient, captured.tape, captured.optimizer};
  for (int i = 0; i < 4; ++i) graph.run([&] { captured.step(); });
  CHECK(graph.captures() == 1);
  CHECK(captured.values() == eager.values());
}
