#pragma once
// Runs some steps in one way, and says what they took.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <gradus/data/batches.hpp>
#include <gradus/data/prefetch.hpp>
#include <gradus/data/token_shard.hpp>
#include <gradus/planning.hpp>
#include <gradus/tensor/staging_buffer.hpp>

#include "../support/process.hpp"
#include "training.hpp"

namespace bench {

/// What a program of bench/train is asked for.
struct run_options {
  std::string tokens;  ///< a file for gr::token_shard; the fastest algorithms of a GPU's products are kept beside it
  int steps = 10;
  int warmup = 1;  ///< steps whose time does not count; they train all the same
  int threads = 0;
};

using stream = device::stream_type;

/// Where memory comes from, counted: of the CPU from the system, of a GPU from a pool, as every library does it.
class step_memory {
#ifdef TRAIN_ON_GPU
  gr::device_resource heap_;
  gr::basic_pool_resource<stream> pool_{heap_};

 public:
  gr::basic_stats_resource<stream> stats{pool_};
  /// Most that the device's memory had to give.
  double peak_bytes() const { return static_cast<double>(heap_.peak_bytes()); }
#else
  gr::host_resource heap_;

 public:
  gr::basic_stats_resource<stream> stats{heap_};
  double peak_bytes() const { return status_bytes("VmHWM"); }
#endif
};

// What is there on one of the devices alone.
#ifdef TRAIN_ON_GPU
using step_graph = gr::step_graph;
inline void set_threads(stream&, int) {}
inline std::string machine_name(const stream& on) {
  cudaDeviceProp known{};
  gr::cuda_kit::check(cudaGetDeviceProperties(&known, on.device().number), "cudaGetDeviceProperties");
  return known.name;
}
inline void tune(gr::context<device>& ctx, const run_options& o) {
  gr::tune_products(ctx, o.tokens + ".tuned-products");
}
#else
struct step_graph {
  explicit step_graph(const auto&...) {}
  void run(const auto& step) { step(); }
};
inline std::string machine_name(const stream&) { return {}; }
inline void set_threads(stream& on, int threads) {
  if (threads > 0) gr::set_thread_count(on, threads);
}
inline void tune(gr::context<device>&, const run_options&) {}
#endif

struct run_result {
  std::vector<double> step_ms;
  std::vector<double> cpu_ms;  ///< of all threads of the process, in a step: what other programs take does not count
  std::vector<double> losses;  ///< of all steps, those of the warm-up first; nats a token
  std::size_t step_bytes = 0;  ///< most bytes at once, of what was asked for, by the last steps
  std::size_t state_bytes = 0;
  std::size_t parameters = 0;
  double process_bytes = 0;  ///< most that the process had, or of a GPU's memory
  std::string regions;       ///< what blocks keep
  std::string machine;       ///< a GPU's name; empty: the CPU
};

/// Half way between the least that a step can take and what it takes when all is kept.
template <class OnMeta>
gr::scheduled_step schedule_within_half() {
  const gr::recompute_scheduler<OnMeta, step_options> search(step_options{});
  const gr::step_trace all = gr::trace_step<OnMeta>(step_options{});
  const std::size_t least = search.least_budget(), most = all.live_before + gr::place(all).bytes;
  return search.within(least + (most - least) / 2);
}

/// @tparam T all techniques of the run
template <sizes S, techniques T, class Optimizer = optimizer_of<T>>
run_result run_steps(const run_options& o) {
  using trained = training<device, S, model_part(T), Optimizer>;
  using on_meta = training<planned_device, S, model_part(T), Optimizer>;
  constexpr gr::index_t micro_batches = trained::micro_batches;
  run_result result;
  step_options options;
  if constexpr (T.checkpoint) {
    const gr::scheduled_step chosen = schedule_within_half<on_meta>();
    options.regions = chosen.regions;
    result.regions = chosen.description;
  }
  stream on;
  set_threads(on, o.threads);
  step_memory memory;
  auto& stats = memory.stats;
  std::optional<gr::basic_planned_resource<stream>> planned;
  gr::basic_resource<stream>* of_steps = &stats;
  if constexpr (T.planned_memory)
    of_steps = &planned.emplace(gr::make_plan(gr::trace_step<on_meta>(options)), stats, on);
  gr::context<device> persistent{on, stats};
  gr::context<device> transient{on, *of_steps};
  if constexpr (T.tuned_products) tune(transient, o);
  trained t(persistent, transient, options);
  auto graph = [&] {
    if constexpr (T.step_graph && T.fused_optimizer) return step_graph(transient, t.tape(), t.optimizer);
    else return step_graph(transient);
  }();
  result.parameters = gr::parameter_count(t.net);

  const gr::token_shard shard(o.tokens);
  const gr::token_windows<std::uint16_t, S.context> windows({shard.tokens()}, S.vocabulary);
  // Micro-batch after micro-batch, the rows of a step are the same in any number of them.
  const auto make = [&](std::uint64_t number) {
    return windows.template random_batch<trained::batch>(1, static_cast<std::uint32_t>(number / micro_batches),
                                                         static_cast<std::uint32_t>(number % micro_batches));
  };
  gr::prefetcher batches(make, {.workers = T.prefetch ? 1u : 0u, .ahead = 4});

  std::FILE* log = std::tmpfile();  // where losses go, as those of a run do
  const auto note = [&](std::size_t step) {
    if (!std::isfinite(result.losses[step]))
      throw gr::error("the loss is no longer finite at step " + std::to_string(step + 1));
    if (log != nullptr) std::fprintf(log, "{\"step\": %zu, \"loss\": %.9g}\n", step + 1, result.losses[step]);
  };
  const int all = o.warmup + o.steps;
  std::vector<gr::staging_buffer<typename trained::loss_value, device>> sent;  // of each step, where they are read late
  if constexpr (T.prefetch)
    for (int step = 0; step < all; ++step) sent.emplace_back(persistent, micro_batches);
  const auto load = [&](gr::index_t i) {
    const auto batch = batches.next();
    t.load(i, batch.inputs.data(), batch.targets.data());
  };
  const auto mean = [](auto&& loss_of) {
    double sum = 0;
    for (gr::index_t i = 0; i < micro_batches; ++i) sum += static_cast<double>(static_cast<float>(loss_of(i)));
    return sum / static_cast<double>(micro_batches);
  };
  double start = 0, cpu_start = 0;
  for (int step = 0; step < all; ++step) {
    if (step == 1) stats.reset_peak();  // the first step also makes states
    t.set_rate(std::min(1.0, (step + 1) / 10.0));
    if (!on_gpu || step <= o.warmup) {
      on.synchronize();
      start = now_ms();
      cpu_start = cpu_now_ms();
    }
    if constexpr (T.step_graph) {
      for (gr::index_t i = 0; i < micro_batches; ++i) load(i);
      graph.run([&] {
        for (gr::index_t i = 0; i < micro_batches; ++i) t.accumulate(i);
        t.update();
      });
    } else {
      for (gr::index_t i = 0; i < micro_batches; ++i) {
        load(i);
        t.accumulate(i);
        if constexpr (!T.prefetch) static_cast<void>(t.loss(i));  // as a first program shows it: the host waits
      }
      t.update();
    }
    if constexpr (T.prefetch) {
      t.send_losses(sent[static_cast<std::size_t>(step)]);
    } else {
      result.losses.push_back(mean([&](gr::index_t i) { return t.loss(i); }));
      note(result.losses.size() - 1);
      if (log != nullptr) std::fflush(log);
    }
    if (step < o.warmup || (on_gpu && step + 1 < all)) continue;
    on.synchronize();
    const double steps = on_gpu ? o.steps : 1;  // a GPU's are timed together: the host runs ahead
    result.step_ms.push_back((now_ms() - start) / steps);
    result.cpu_ms.push_back((cpu_now_ms() - cpu_start) / steps);
  }
  for (std::size_t step = 0; step < sent.size(); ++step) {
    const auto values = sent[step].values();
    result.losses.push_back(mean([&](gr::index_t i) { return values[i]; }));
    note(step);
  }
  if (log != nullptr) std::fclose(log);
  result.step_bytes = stats.all().peak;
  result.state_bytes = stats.of(gr::category::optimizer_state).live;
  result.process_bytes = memory.peak_bytes();
  result.machine = machine_name(on);
  return result;
}

inline void print_list(const char* name, const std::vector<double>& values, const char* form) {
  std::printf("\"%s\": [", name);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i > 0) std::printf(", ");
    std::printf(form, values[i]);
  }
  std::printf("], ");
}
/// One line of JSON.
inline void print_result(const char* name, const run_result& r) {
  std::printf("{\"run\": \"%s\", ", name);
  print_list("step_ms", r.step_ms, "%.3f");
  print_list("cpu_ms", r.cpu_ms, "%.3f");
  print_list("losses", r.losses, "%.9g");
  std::string regions;
  for (const char c : r.regions)
    regions += c == '\n' ? std::string("\\n") : c == '"' ? std::string("'") : std::string(1, c);
  std::printf(
      "\"parameters\": %zu, \"step_bytes\": %zu, \"state_bytes\": %zu, \"process_bytes\": %.0f, \"regions\": \"%s\", "
      "\"machine\": \"%s\"}\n",
      r.parameters, r.step_bytes, r.state_bytes, r.process_bytes, regions.c_str(), r.machine.c_str());
}

/// Reads `NAME --tokens FILE [--steps N] [--warmup N] [--threads N]`, and returns NAME. Throws std::invalid_argument.
inline std::string read_arguments(int argc, char** argv, run_options& o) {
  const auto wrong = [&](const std::string& what) {
    return std::invalid_argument(what + "\nusage: " + argv[0] +
                                 " NAME --tokens FILE [--steps N] [--warmup N] [--threads N]");
  };
  if (argc < 2 || argc % 2 != 0) throw wrong("a name, and flags with a value each, are needed");
  for (int i = 2; i < argc; i += 2) {
    const std::string flag = argv[i];
    if (flag == "--tokens") o.tokens = argv[i + 1];
    else if (flag == "--steps") o.steps = std::max(1, std::atoi(argv[i + 1]));
    else if (flag == "--warmup") o.warmup = std::max(0, std::atoi(argv[i + 1]));
    else if (flag == "--threads") o.threads = std::atoi(argv[i + 1]);
    else throw wrong("unknown flag " + flag);
  }
  if (o.tokens.empty()) throw wrong("--tokens is needed");
  return argv[1];
}

}  // namespace bench
