// Steps of a GPT on the GPU, eager and as one graph, in planned memory: tokens a second, timed by events on the stream.
// The sizes are those of GPT-2 124M with one layer, a context of 128 and two sequences, unless the macros GPT_... say
// otherwise.
//
//   bench_cuda_gpt_step [STEPS]    0: one eager step after the first, nothing timed, for who counts what its kernels do
#include <cuda_profiler_api.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <gradus/cuda.hpp>
#include <gradus/plan/placement.hpp>
#include <gradus/plan/step_summary.hpp>
#include <vector>

#include "../../examples/gpt/model.hpp"

#ifndef GPT_LAYERS
#define GPT_LAYERS 1
#endif
#ifndef GPT_CONTEXT
#define GPT_CONTEXT 128
#endif
#ifndef GPT_BATCH
#define GPT_BATCH 2
#endif
#ifndef GPT_VOCABULARY
#define GPT_VOCABULARY 50257
#endif
#ifndef GPT_PRECISION
#define GPT_PRECISION bf16_mixed
#endif

namespace gr = gradus;

namespace {

constexpr gpt::config sizes{
    .layers = GPT_LAYERS, .heads = 12, .width = 768, .context = GPT_CONTEXT, .vocabulary = GPT_VOCABULARY};

template <class D>
struct training {
  using device = D;
  using X = gr::on<D, gr::GPT_PRECISION>;
  using ids = gr::shape<GPT_BATCH, GPT_CONTEXT>;
  using tokens = gr::tensor<std::uint16_t, ids, D>;

  gr::context<D>&kept, &freed;
  gpt::model<X, sizes> net;
  gr::adamw<typename X::store, D, typename X::gradient> optimizer{net, {.lr = 6e-4}};
  gr::tape<D> tape{freed, 1};
  tokens inputs, targets;
  gr::tensor<float, gr::shape<>, D> loss = gr::zeros<float, gr::shape<>>(kept);

  constexpr training(gr::context<D>& persistent, gr::context<D>& transient) : kept(persistent), freed(transient) {
    gr::init(net, kept, gr::normal_init{.seed = 1, .stddev = 0.02});
    std::vector<std::uint16_t> text(ids::size + 1);
    for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<std::uint16_t>(i * i * 7919 % GPT_VOCABULARY);
    inputs = gr::from_host<std::uint16_t, ids>(kept, text.data(), gr::category::input);
    targets = gr::from_host<std::uint16_t, ids>(kept, text.data() + 1, gr::category::input);
  }
  constexpr void step() {
    auto found = net.loss(tape.watch(inputs), targets);
    if constexpr (D::computes)
      gr::device_access<D>::copy(freed, loss.data(), std::as_const(found.value()).data(), sizeof(float));
    gr::backward(found);
    static_cast<void>(optimizer.clip(freed, 1.0));
    optimizer.step(kept);
  }
};

class timer {
 public:
  explicit timer(gr::cuda_stream& on) : on_(&on) {
    for (cudaEvent_t& e : events_) gr::cuda_kit::check(cudaEventCreate(&e), "cudaEventCreate");
  }
  timer(const timer&) = delete;
  timer& operator=(const timer&) = delete;
  ~timer() {
    for (const cudaEvent_t e : events_) static_cast<void>(cudaEventDestroy(e));
  }
  template <class F>
  double seconds(const F& f) {
    gr::cuda_kit::check(cudaEventRecord(events_[0], on_->handle()), "cudaEventRecord");
    f();
    gr::cuda_kit::check(cudaEventRecord(events_[1], on_->handle()), "cudaEventRecord");
    gr::cuda_kit::check(cudaEventSynchronize(events_[1]), "cudaEventSynchronize");
    float ms = 0;
    gr::cuda_kit::check(cudaEventElapsedTime(&ms, events_[0], events_[1]), "cudaEventElapsedTime");
    return static_cast<double>(ms) * 1e-3;
  }

 private:
  gr::cuda_stream* on_;
  cudaEvent_t events_[2] = {};
};

void run(int steps, const char* products) {
  gr::cuda_stream stream;
  gr::device_resource memory;
  gr::basic_planned_resource<gr::cuda_stream> planned(gr::make_plan(gr::trace_step<training<gr::cuda_meta>>()), memory,
                                                      stream);
  gr::context<gr::cuda> persistent{stream, memory}, transient{stream, planned};
  training<gr::cuda> t(persistent, transient);
  if (products != nullptr)
    for (gr::context<gr::cuda>* ctx : {&persistent, &transient}) gr::tune_products(*ctx, products);
  t.step();
  stream.synchronize();
  std::printf("first loss %.4f\n", static_cast<double>(gr::item(t.loss)));
  if (steps == 0) {
    gr::cuda_kit::check(cudaProfilerStart(), "cudaProfilerStart");  // for ncu --profile-from-start off
    t.step();
    stream.synchronize();
    gr::cuda_kit::check(cudaProfilerStop(), "cudaProfilerStop");
    return;
  }
  timer clock{stream};
  gr::step_graph graph{transient, t.tape, t.optimizer};
  for (int i = 0; i < 2; ++i) graph.run([&] { t.step(); });
  const auto report = [&](const char* how, double seconds) {
    std::printf("%-8s %9.0f tokens/s, %.3f ms a step, loss %.4f\n", how,
                static_cast<double>(training<gr::cuda>::ids::size) * steps / seconds, 1e3 * seconds / steps,
                static_cast<double>(gr::item(t.loss)));
  };
  report("eager", clock.seconds([&] {
    for (int i = 0; i < steps; ++i) t.step();
  }));
  report("graph", clock.seconds([&] {
    for (int i = 0; i < steps; ++i) graph.run([&] { t.step(); });
  }));
  std::printf("%zu kernels, copies and fills a step; peak %.0f MiB\n", graph.nodes(),
              static_cast<double>(memory.peak_bytes()) / (1 << 20));
}

}  // namespace

int main(int argc, char** argv) {
  if (const auto reason = gr::cuda_unavailable_reason(); !reason.empty()) {
    std::printf("skipped: %s\n", reason.c_str());
    return 77;
  }
  try {
    run(argc > 1 ? std::atoi(argv[1]) : 20, argc > 2 ? argv[2] : nullptr);  // steps, and a file of tuned products
  } catch (const gr::error& problem) {
    std::fprintf(stderr, "bench_cuda_gpt_step: %s\n", problem.what());
    return 1;
  }
}
