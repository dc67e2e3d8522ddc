// Lesson 8: memory known beforehand. The same training code runs on `gr::meta`, which computes nothing and counts
// everything, even while the program is compiled. Then it trains in one block of that size and asks for no memory
// again.

#include <cstdio>
#include <gradus/planning.hpp>

namespace gr = gradus;

struct options {
  gr::region_schedule regions = {};
};

// Four blocks under a schedule of regions, on any device D. Parameters are in a persistent context; what a step needs
// is in the other.
template <class D>
struct training {
  using X = gr::on<D>;
  std::array<gr::nn::mlp<X, 64>, 4> blocks;
  gr::adamw<float, D> optimizer;
  gr::context<D>& persistent;
  gr::context<D>& transient;
  gr::tape<D> tape;
  gr::region_schedule regions;

  constexpr training(gr::context<D>& rest, gr::context<D>& pass, const options& o)
      : optimizer(blocks), persistent(rest), transient(pass), tape(pass), regions(o.regions) {
    gr::init(blocks, rest, gr::xavier_normal{.seed = 1});
  }
  constexpr void step() {
    auto x = gr::full<float, gr::shape<128, 64>>(transient, 0.5f, gr::category::input);
    const auto y =
        gr::chain(blocks, tape.watch(std::move(x)), regions, [](const auto& block, auto v) { return v + block(v); });
    gr::backward(gr::mean(y * y));
    optimizer.step(persistent);
  }
};

// The compiler runs the step. A model that grows beyond the machine does not compile.
constexpr auto summary = gr::summarize_step<training<gr::meta>>(options{});
static_assert(summary.peak_bytes < 4'000'000);

int main() {
  std::printf("peak %zu bytes, of them %zu persistent, reached by %s\n", summary.peak_bytes, summary.persistent_bytes,
              summary.peak_op.data());

  // The fastest schedule that fits in less.
  const std::size_t budget = gr::parse_bytes("2.8MB");
  const auto chosen = gr::recompute_schedule<training<gr::meta>>(budget, options{});
  std::printf("within %s: peak %zu bytes\n%s", gr::format_bytes(budget).c_str(), chosen.summary.peak_bytes,
              chosen.description.c_str());

  // Every block of the step gets its place in one workspace.
  gr::stream stream;
  gr::host_resource heap;
  gr::planned_resource planned(gr::make_plan(gr::trace_step<training<gr::meta>>(options{chosen.regions})), heap,
                               stream);
  gr::stats_resource memory(planned);
  gr::context persistent{stream, heap};
  gr::context transient{stream, memory};
  training<gr::cpu> net(persistent, transient, options{chosen.regions});
  for (int i = 0; i < 3; ++i) net.step();
  planned.check();
  std::printf("measured: %zu bytes\n", memory.all().peak + chosen.summary.persistent_bytes);
  return memory.all().peak + chosen.summary.persistent_bytes == chosen.summary.peak_bytes ? 0 : 1;
}
