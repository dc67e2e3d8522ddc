// One model's training step on random tokens: tokens a second, peak memory and the bare GEMM rate at the model's own
// shapes, as one JSON line. The same work as bench/peers/torch_gpt.py: no dropout, clipping at 1, AdamW.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <gradus/planning.hpp>

#include "../support/gpt_step.hpp"

namespace gr = gradus;
using bench::batch;
using bench::median;
using bench::now_ms;

namespace {

template <class D>
using training = bench::training<D, std::int32_t>;

// GFLOP/s over the model's linear layers, forward and both gradients, each product weighted by the times it occurs, in
// the types of the model's policy.
double gemm_rate(gr::stream& stream) {
  constexpr gr::index_t rows = batch * bench::config.context;
  constexpr gr::index_t c = bench::config.width;
  struct layer {
    gr::index_t in, out, times;
  };
  const layer layers[] = {{c, 3 * c, bench::config.layers},
                          {c, c, bench::config.layers},
                          {c, 4 * c, bench::config.layers},
                          {4 * c, c, bench::config.layers},
                          {c, bench::config.padded_vocabulary(), 1}};
  using factor = gr::GPT_PRECISION::compute;
  using gradient = gr::GPT_PRECISION::gradient;
  gr::host_resource heap;
  gr::context ctx{stream, heap};
  double flops = 0;
  double ms = 0;
  for (const layer& l : layers) {
    std::vector<factor> x(rows * l.in, factor(0.5f)), w(l.in * l.out, factor(0.25f)), y(rows * l.out, factor(0.125f));
    std::vector<gradient> dw(l.in * l.out);
    const auto products = [&] {
      // The head takes the token table as it lies, [vocabulary, width].
      if (l.out == bench::config.padded_vocabulary()) {
        gr::cpu_kit::gemm<float>(ctx, false, true, rows, l.out, l.in, x.data(), l.in, w.data(), l.in, false, y.data(),
                                 l.out);
        gr::cpu_kit::gemm<float>(ctx, false, false, rows, l.in, l.out, y.data(), l.out, w.data(), l.in, false, x.data(),
                                 l.in);
        gr::cpu_kit::gemm<float>(ctx, true, false, l.out, l.in, rows, y.data(), l.out, x.data(), l.in, false, dw.data(),
                                 l.in);
      } else {
        gr::cpu_kit::gemm<float>(ctx, false, false, rows, l.out, l.in, x.data(), l.in, w.data(), l.out, false, y.data(),
                                 l.out);
        gr::cpu_kit::gemm<float>(ctx, false, true, rows, l.in, l.out, y.data(), l.out, w.data(), l.out, false, x.data(),
                                 l.in);
        gr::cpu_kit::gemm<float>(ctx, true, false, l.in, l.out, rows, x.data(), l.in, y.data(), l.out, false, dw.data(),
                                 l.out);
      }
      // Keep values finite over many rounds.
      std::fill(x.begin(), x.end(), factor(0.5f));
      std::fill(y.begin(), y.end(), factor(0.125f));
    };
    products();
    std::vector<double> times;
    for (int i = 0; i < 3; ++i) {
      const double start = now_ms();
      products();
      times.push_back(now_ms() - start);
    }
    const double per_round = 6.0 * static_cast<double>(rows * l.in * l.out);
    flops += per_round * static_cast<double>(l.times);
    ms += *std::min_element(times.begin(), times.end()) * static_cast<double>(l.times);
  }
  return flops / ms * 1e-6;
}

}  // namespace

int main(int argc, char** argv) {
  int steps = 4;
  int warmup = 2;
  int threads = 0;
  int budget = 0;
  for (int i = 1; i + 1 < argc; i += 2) {
    const int value = std::atoi(argv[i + 1]);
    if (std::strcmp(argv[i], "--steps") == 0) steps = value;
    else if (std::strcmp(argv[i], "--warmup") == 0) warmup = value;
    else if (std::strcmp(argv[i], "--threads") == 0) threads = value;
    else if (std::strcmp(argv[i], "--budget") == 0) budget = value;
    else {
      std::fprintf(stderr, "bench_peers: unknown flag %s; --steps N --warmup N --threads N --budget MIB are known\n",
                   argv[i]);
      return 2;
    }
  }
  if (steps < 1 || warmup < 0) {
    std::fprintf(stderr, "bench_peers: --steps must be at least 1 and --warmup at least 0\n");
    return 2;
  }

  const double base = bench::status_bytes("VmRSS");
  std::vector<double> times;
  double loss = 0;
  std::size_t parameters = 0;
  gr::stream stream;
  if (threads > 0) gr::set_thread_count(stream, threads);
  {
    gr::training_options options{.adamw = {.lr = 3e-4, .beta1 = 0.9, .beta2 = 0.95, .weight_decay = 0.1}};
    if (budget > 0) {
      const gr::recompute_scheduler<training<gr::meta>, gr::training_options> search(options);
      options.regions = search.within(static_cast<std::size_t>(budget) << 20).regions;
    }
    gr::host_resource heap;
    gr::planned_resource planned(gr::make_plan(gr::trace_step<training<gr::meta>>(options)), heap, stream);
    gr::context persistent{stream, heap};
    gr::context transient{stream, planned};
    training<gr::cpu> t(persistent, transient, options);
    parameters = gr::parameter_count(t.net);

    const bench::random_batch<std::int32_t> data;
    for (int s = 0; s < warmup + steps; ++s) {
      const double start = now_ms();
      loss = static_cast<double>(t.add_batch(data.inputs.data(), data.targets.data()));
      t.update();
      if (s >= warmup) times.push_back(now_ms() - start);
    }
  }
  constexpr double mib = 1 << 20;
  const double peak = bench::status_bytes("VmHWM");
  const double step_ms = median(times);
  std::printf(
      "{\"tok_s\": %.1f, \"step_ms\": %.2f, \"peak_mib\": %.1f, \"peak_over_base_mib\": %.1f, \"params\": %zu, "
      "\"loss\": %.4f, "
      "\"threads\": %d, \"gemm_gflops\": %.1f}\n",
      static_cast<double>(batch * bench::config.context) / step_ms * 1e3, step_ms, peak / mib, (peak - base) / mib,
      parameters, loss, gr::thread_count(stream), gemm_rate(stream));
}
