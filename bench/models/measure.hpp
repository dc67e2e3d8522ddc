#pragma once
// Times training steps in planned memory: the program of each bench/models/<model>.cpp.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <gradus/planning.hpp>

#include "../support/process.hpp"

namespace bench {

namespace gr = gradus;

/// Trains for some steps and prints one JSON line: samples a second, the median step, the process's peak memory, the
/// planned bytes. `Training<D>(persistent, transient)` has `net`, `load()`, which fills its batch, `step()`, a whole
/// step, and `loss()`; it runs on gradus::meta too. With `--plan 1` it prints the planned bytes alone.
/// @param samples of a step
template <template <class> class Training>
int measure(int argc, char** argv, double samples) {
  int steps = 4, warmup = 1, threads = 0, plan_only = 0;
  for (int i = 1; i + 1 < argc; i += 2) {
    const int value = std::atoi(argv[i + 1]);
    if (std::strcmp(argv[i], "--steps") == 0) steps = value;
    else if (std::strcmp(argv[i], "--warmup") == 0) warmup = value;
    else if (std::strcmp(argv[i], "--threads") == 0) threads = value;
    else if (std::strcmp(argv[i], "--plan") == 0) plan_only = value;
    else {
      std::fprintf(stderr, "%s: unknown flag %s; --steps N --warmup N --threads N --plan 1 are known\n", argv[0],
                   argv[i]);
      return 2;
    }
  }
  if (steps < 1 || warmup < 0) {
    std::fprintf(stderr, "%s: --steps must be at least 1 and --warmup at least 0\n", argv[0]);
    return 2;
  }
  const double base = status_bytes("VmRSS");
  gr::stream stream;
  if (threads > 0) gr::set_thread_count(stream, threads);
  const gr::step_trace trace = gr::trace_step<Training<gr::meta>>();
  const gr::memory_plan plan = gr::make_plan(trace);
  const std::size_t planned_bytes = trace.live_before + plan.bytes;
  if (plan_only != 0) {
    std::printf("{\"planned_mib\": %.1f, \"planned_bytes\": %zu}\n", static_cast<double>(planned_bytes) / (1 << 20),
                planned_bytes);
    return 0;
  }
  gr::host_resource heap;
  gr::planned_resource planned(plan, heap, stream);
  gr::context persistent{stream, heap};
  gr::context transient{stream, planned};
  Training<gr::cpu> t(persistent, transient);
  t.load();
  std::vector<double> times;
  for (int s = 0; s < warmup + steps; ++s) {
    const double start = now_ms();
    t.step();
    if (s >= warmup) times.push_back(now_ms() - start);
  }
  constexpr double mib = 1 << 20;
  const double peak = status_bytes("VmHWM"), step_ms = median(times);
  std::printf(
      "{\"per_s\": %.2f, \"step_ms\": %.2f, \"peak_mib\": %.1f, \"peak_over_base_mib\": %.1f, \"planned_mib\": %.1f, "
      "\"params\": %zu, \"loss\": %.5f, \"threads\": %d}\n",
      samples / step_ms * 1e3, step_ms, peak / mib, (peak - base) / mib, static_cast<double>(planned_bytes) / mib,
      gr::parameter_count(t.net), static_cast<double>(t.loss()), gr::thread_count(stream));
  return 0;
}

}  // namespace bench
