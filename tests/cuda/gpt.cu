#include "device.hpp"
#include "gpt_cases.hpp"

TEST_CASE("a GPT on the GPU trains as on the CPU, with dropout, accumulation, clipping and a scaled loss") {
  if (no_gpu()) return;
  agree(&gpt_on_cpu, [](auto& r) { gpt_cases(r); });
}

namespace {

using training = gpt_training<gr::bf16_mixed, gr::cuda>;

/// Three steps, submitted by `submit`: the losses, and a parameter at the end.
template <class Submit>
std::vector<float> three_steps(gpu& g, training& t, unsigned seed, const Submit& submit) {
  runner<gr::cuda> r(g.ctx, seed);
  std::vector<float> found;
  for (int step = 0; step < 3; ++step) {
    t.load(r);
    submit(t);
    for (const float loss : gr::to_host(t.losses)) found.push_back(loss);
  }
  for (const float w : gr::to_host(t.net.blocks[0].attention.qkv.weight.value())) found.push_back(w);
  return found;
}

}  // namespace

TEST_CASE("steps of a GPT have the same bits eager, as a graph, in planned memory, and with blocks computed again") {
  if (no_gpu()) return;
  const unsigned seed = gradus_test::fresh_seed();
  CAPTURE(seed);
  gpu g;
  const auto eagerly = [](training& t) { t.step(); };
  std::vector<float> plain;
  {
    training t(g.ctx, g.ctx);
    plain = three_steps(g, t, seed, eagerly);
  }
  CHECK(plain.front() == plain.front());
  for (const bool recompute : {false, true}) {
    CAPTURE(recompute);
    gr::basic_planned_resource<gr::cuda_stream> planned(plan_of_gpt(recompute), g.poisoned, g.stream);
    gr::context<gr::cuda> transient{g.stream, planned};
    training t(g.ctx, transient, recompute);
    gr::step_graph graph{g.ctx};
    const auto as_graph = [&](training& of) {
      graph.run([&] { of.step(); });
      planned.check();
    };
    CHECK(three_steps(g, t, seed, as_graph) == plain);
    CHECK(graph.made() == 1);
    CHECK(graph.nodes() > 100);
    CHECK(planned.live_blocks() == 0);
  }
}
