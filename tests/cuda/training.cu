#include <gradus/cpu/access.hpp>
#include <gradus/memory/host_resource.hpp>

#include "device.hpp"
#include "training_cases.hpp"

namespace {

// Weights after four steps, eager or as a graph, which is made once if a step asks for no memory but the pool's.
template <class Make>
std::vector<float> four_steps(const Make& make_optimizer, bool as_graph) {
  constexpr gr::index_t batch = 7;
  gpu g;
  gr::basic_pool_resource<gr::cuda_stream> pool(g.poisoned);
  gr::context<gr::cuda> transient{g.stream, pool};
  mlp<gr::on<gr::cuda>> net;
  gr::init(net, g.ctx, gr::he_normal{.seed = 11});
  auto optimizer = make_optimizer(net);
  gr::tape tape{transient};
  const auto inputs = gr::full<float, gr::shape<batch, 13>>(g.ctx, 0.5f);
  const auto labels = gr::full<std::int32_t, gr::shape<batch>>(g.ctx, 3);
  gr::step_graph graph{g.ctx};
  const auto step = [&] {
    gr::backward(gr::cross_entropy(net(tape.watch(inputs)), labels));
    optimizer.step(g.ctx);
  };
  for (int i = 0; i < 4; ++i) {
    if (as_graph) graph.run(step);
    else step();
  }
  if (as_graph) CHECK(graph.made() == 1);
  return gr::to_host(net.w1.value());
}

}  // namespace

TEST_CASE("five optimizer steps of a network on the GPU follow the CPU's, and come out the same each time") {
  if (no_gpu()) return;
  agree(&training_on_cpu, [](auto& r) { training_cases(r); });
}

TEST_CASE("an optimizer's step asks for no memory once it has its states, so one graph serves all steps") {
  if (no_gpu()) return;
  const auto check = [](const auto& make_optimizer) {
    CHECK(four_steps(make_optimizer, true) == four_steps(make_optimizer, false));
  };
  check([](auto& net) { return gr::adamw_8bit{net}; });
  check([](auto& net) { return gr::adafactor{net}; });
  check([](auto& net) { return gr::muon{net}; });
}

namespace {
template <class X>
struct counted {
  gr::param<X, 13, 5> weight;
  gr::state<X, 5> mean;
  GRADUS_MEMBERS(weight, mean)
  auto operator()(const auto& x) const {
    const auto y = gr::matmul(x, weight);
    mean.update(x, mean + 0.5f * (gr::mean<0>(y) - mean));
    return y * y;
  }
};
}  // namespace

TEST_CASE(
    "each launch of a step's graph updates states, frozen parameters stay, and models are copied across devices") {
  if (no_gpu()) return;
  std::vector<std::vector<float>> means;
  for (const bool as_graph : {false, true}) {
    gpu g;
    gr::basic_pool_resource<gr::cuda_stream> pool(g.poisoned);
    gr::context<gr::cuda> transient{g.stream, pool};
    gr::stream stream;
    gr::host_resource heap;
    gr::context<gr::cpu> host{stream, heap};
    counted<gr::on<gr::cpu>> on_host;
    counted<gr::on<gr::cuda>> net;
    gr::init(on_host, host, gr::he_normal{.seed = 11});
    gr::init(net, g.ctx, gr::he_normal{.seed = 12});
    gr::copy(on_host, net);
    gr::freeze(net.weight);
    gr::tape tape{transient};
    gr::adamw optimizer{net};
    gr::step_graph graph{g.ctx};
    const auto x = gr::normal<float, gr::shape<9, 13>>(g.ctx, {.seed = 1});
    const auto step = [&] {
      gr::backward(gr::sum(net(tape.watch(x))));
      optimizer.step(g.ctx);
    };
    for (int i = 0; i < 3; ++i) {
      if (as_graph) graph.run(step);
      else step();
    }
    const auto weight = gr::to_host(on_host.weight.value());
    gr::copy(net, on_host);
    CHECK(gr::to_host(on_host.weight.value()) == weight);
    means.push_back(gr::to_host(on_host.mean.value()));
    const auto y = gr::to_host(gr::mean<0>(gr::matmul(x, net.weight)));
    for (std::size_t i = 0; i < y.size(); ++i) CHECK(means.back()[i] == doctest::Approx(0.875f * y[i]).epsilon(1e-4));
  }
  CHECK(means[0] == means[1]);
}
