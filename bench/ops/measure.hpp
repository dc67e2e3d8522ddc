#pragma once
// How bench/ops measures: the best of several runs, beside what this machine can do.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <initializer_list>
#include <string>
#include <vector>

#include <gradus/gradus.hpp>

#if defined(BENCH_WITH_ONEDNN)
#include <oneapi/dnnl/dnnl.h>
#endif

namespace bench {

namespace gr = gradus;

template <class Run>
double seconds_of(Run run) {
  const auto start = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// The least of what `sample()` returns, which is seconds: of 8 samples at least, and of more while they take less than
/// `budget`.
template <class Sample>
double best_of(Sample sample, double budget = 0.2) {
  sample();  // touches new memory
  double best = 1e9, total = 0;
  for (int i = 0; i < 8 || (total < budget && i < 1000); ++i) {
    const double seconds = sample();
    total += seconds;
    best = std::min(best, seconds);
  }
  return best;
}
template <class Run>
double best_time(Run run, double budget = 0.2) {
  return best_of([&] { return seconds_of(run); }, budget);
}

/// What this machine can do, on all threads.
struct machine {
  double copy = 0;  ///< bytes read plus bytes written a second
  double read = 0;  ///< bytes a second
  double gemm = 0;  ///< FLOPs a second of a float matrix product: the best of several sizes, by us or by oneDNN

  /// The least time of an operation: that of its bytes or of its FLOPs.
  double least_time(double bytes, double flops) const { return std::max(bytes / std::max(copy, read), flops / gemm); }
};

inline machine measure_machine(gr::context<gr::cpu>& ctx) {
  constexpr gr::index_t n = gr::index_t{1} << 24;  // 64 MiB, as the operands of register_ops
  std::vector<float> a(n, 1.0f), b(n, 0.0f);
  using pack = gr::pack<float>;
  const auto copy = [&] {
    gr::cpu_kit::parallel_ranges(ctx, n, 1 << 16,
                                 [&](gr::index_t i, gr::index_t j) { std::copy(&a[i], &a[j - 1] + 1, &b[i]); });
  };
  const auto read = [&] {
    gr::cpu_kit::parallel_ranges(ctx, n, 1 << 16, [&](gr::index_t i, gr::index_t j) {
      pack sums[4] = {pack(0.0f), pack(0.0f), pack(0.0f), pack(0.0f)};
      for (gr::index_t q = i; q < j; q += 4 * pack::size)
        for (gr::index_t s = 0; s < 4; ++s) sums[s] = sums[s] + pack::load(&a[q + s * pack::size]);
      b[i] = sum_lanes((sums[0] + sums[1]) + (sums[2] + sums[3]));
    });
  };
  machine m;
  m.copy = 8.0 * static_cast<double>(n) / best_time(copy, 2);
  m.read = 4.0 * static_cast<double>(n) / best_time(read, 2);
  for (const gr::index_t s : std::initializer_list<gr::index_t>{384, 512, 1024, 2048}) {
    const auto multiply = [&] {
      gr::cpu_kit::gemm<float>(ctx, false, false, s, s, s, a.data(), s, a.data() + s * s, s, false, b.data(), s);
    };
    m.gemm = std::max(m.gemm, 2.0 * static_cast<double>(s * s * s) / best_time(multiply, 1));
#if defined(BENCH_WITH_ONEDNN)
    const auto by_onednn = [&] {
      const auto d = static_cast<dnnl_dim_t>(s);
      dnnl_sgemm('N', 'N', d, d, d, 1.0f, a.data(), d, a.data() + s * s, d, 0.0f, b.data(), d);
    };
    m.gemm = std::max(m.gemm, 2.0 * static_cast<double>(s * s * s) / best_time(by_onednn, 1));
#endif
  }
  return m;
}

/// Registers a benchmark whose time is what `time()` returns, with its rates and its share of what the machine can do.
template <class Time>
void add_row(const machine& peak, const std::string& name, double bytes, double flops, Time time) {
  benchmark::RegisterBenchmark(name.c_str(),
                               [=](benchmark::State& state) {
                                 double seconds = 0;
                                 for (auto _ : state) state.SetIterationTime(seconds = time());
                                 if (bytes > 0) state.counters["GB/s"] = bytes / seconds * 1e-9;
                                 if (flops > 0) state.counters["GFLOP/s"] = flops / seconds * 1e-9;
                                 state.counters["of peak"] = peak.least_time(bytes, flops) / seconds;
                               })
      ->UseManualTime()
      ->Iterations(1)
      ->Unit(benchmark::kMicrosecond);
}

/// gemm/<library>/<shape>, and gemm_bf16, whose peak is float's: ours against those that were found when this was built
/// (gemm.cpp).
void register_gemm(const machine& peak);
/// step/<optimizer>: one step (optimizers.cpp).
void register_optimizers(const machine& peak);

}  // namespace bench
