// Trains a GPT of 98 million parameters whose parameters and AdamW states are in a file, then in memory. Prints the
// plan of its memory, the resident memory that it took (VmHWM, which counts mapped pages), times, and whether the
// losses are equal to the bit.
//
//   bench_offload FOLDER [STEPS]     the file is in FOLDER, on a disk; 3 steps
//
// $GRADUS_BENCH_JSON names a file for rows of {name, value, unit, ratio}.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include <gradus/planning.hpp>

#include "gpt/training.hpp"

namespace gr = gradus;

namespace {

constexpr gpt::config sizes{.layers = 12, .heads = 12, .width = 768, .context = 64, .vocabulary = 16384};
constexpr gr::index_t batch = 2;
constexpr gr::index_t values_of_part = gr::index_t{1} << 20;

// A training whose parameters are in a file, of which `Store` loads groups.
template <class D, class Store>
struct offloaded : gpt::training<D, sizes, batch, std::uint16_t> {
  using base = gpt::training<D, sizes, batch, std::uint16_t>;
  Store store;
  gr::parameter_residency<float, D> residency;

  template <class MakeStore>
  offloaded(gr::context<D>& in_file, gr::context<D>& in_memory, const gr::training_options& o,
            const std::vector<std::size_t>& order, const MakeStore& make)
      : base(in_file, in_memory, o),
        store(make(this->net)),
        residency(in_memory, gr::param_groups<float, D>(this->net), store) {
    residency.follow(order);
  }
  void step() {
    this->backward(0);
    residency.evict();
    if constexpr (D::computes) store.attach();
    this->update();
    residency.invalidate();
  }
};

// Bytes in memory of a step, and the order in which it uses groups of parameters.
struct plan {
  gr::step_trace trace;
  std::vector<std::size_t> order;
};
plan make_plan(const gr::training_options& o) {
  struct nothing final : gr::group_store<float> {
    explicit nothing(int) {}
    void start_load(std::size_t, float*) override {}
    void finish_load(std::size_t) override {}
  };
  plan p;
  for (int run = 0; run < 2; ++run) {
    gr::meta_stream stream;
    gr::accounting file, memory;
    gr::context<gr::meta> in_file{stream, file}, in_memory{stream, memory};
    offloaded<gr::meta, nothing> t(in_file, in_memory, o, p.order, [](const auto&) { return 0; });
    if (run == 1) memory.start(p.trace);
    t.step();
    if (run == 1) memory.finish();
    p.order = t.residency.order();
  }
  p.trace.alignment = gr::meta::alignment;
  return p;
}

std::size_t status_bytes(const char* name) {
  std::ifstream status("/proc/self/status");
  std::string word;
  std::size_t kib = 0;
  while (status >> word)
    if (word == name) status >> kib;
  return kib * 1024;
}
double mib(std::size_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

// Losses of the steps of `t`, and seconds of a step.
template <class Training>
std::vector<float> train(Training& t, int steps, double& seconds) {
  std::vector<float> losses;
  std::vector<std::uint16_t> tokens(batch * sizes.context + 1);
  std::vector<double> times;
  for (int step = 0; step < steps; ++step) {
    for (gr::index_t i = 0; i < tokens.size(); ++i)
      tokens[i] = static_cast<std::uint16_t>(
          gr::random_key{.seed = 7, .step = static_cast<std::uint32_t>(step)}.words(i)[0] % sizes.vocabulary);
    const auto start = std::chrono::steady_clock::now();
    t.load(0, tokens.data(), tokens.data() + 1);
    t.step();
    losses.push_back(static_cast<float>(t.send_loss().value()));
    times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::sort(times.begin(), times.end());
  seconds = times[times.size() / 2];
  return losses;
}

int run(const char* folder, int steps) {
  const gr::training_options o{.dropout = 0.1, .regions = gr::region_schedule::every_block(sizes.layers)};
  const plan p = make_plan(o);
  const gr::step_summary summary = gr::summarize(p.trace);
  const gr::memory_plan placed = gr::make_plan(p.trace);
  const std::size_t before = status_bytes("VmRSS:"), parts = 2 * values_of_part * 3 * sizeof(float),
                    planned = before + placed.bytes + parts;
  std::printf("plan: %.0f MiB = %.0f at the start + %.0f of a step + %.0f of two parts of an update\n", mib(planned),
              mib(before), mib(placed.bytes), mib(parts));
  std::printf("      of the step at its peak: %.0f MiB of gradients, %.0f of parameters, %.0f of others\n",
              mib(summary.at_peak_of(gr::category::gradient)), mib(summary.at_peak_of(gr::category::parameter)),
              mib(summary.peak_bytes - summary.at_peak_of(gr::category::gradient) -
                  summary.at_peak_of(gr::category::parameter)));
  gr::stream stream;
  gr::host_resource heap;
  std::vector<float> losses;
  double seconds = 0, seconds_in_memory = 0;
  std::size_t resident = 0;
  {
    gr::file_resource file(folder);
    gr::planned_resource workspace(placed, heap, stream);
    gr::context in_file{stream, file}, in_memory{stream, workspace};
    gr::file_parts by(file, values_of_part);
    offloaded<gr::cpu, gr::file_store<float>> t(in_file, in_memory, o, p.order, [&](auto& net) {
      return gr::file_store<float>(file, gr::param_groups<float, gr::cpu>(net));
    });
    t.optimizer.divide_by(&by);
    losses = train(t, steps, seconds);
    resident = status_bytes("VmHWM:");
    std::printf("in the file: %.0f MiB; resident: %.0f MiB at most, %+.1f %% of the plan; %.2f s a step\n",
                mib(file.bytes()), mib(resident),
                100 * (static_cast<double>(resident) / static_cast<double>(planned) - 1), seconds);
  }
  gr::pool_resource pool(heap);
  gr::context ctx{stream, pool};
  gpt::training<gr::cpu, sizes, batch, std::uint16_t> t(ctx, ctx, o);
  const std::vector<float> wanted = train(t, steps, seconds_in_memory);
  const std::size_t most = status_bytes("VmHWM:");
  std::printf("in memory: resident: %.0f MiB at most; %.2f s a step\n", mib(most), seconds_in_memory);
  for (std::size_t i = 0; i < losses.size(); ++i)
    std::printf("loss of step %zu: %.9g, in memory %.9g\n", i + 1, static_cast<double>(losses[i]),
                static_cast<double>(wanted[i]));
  if (const char* rows = std::getenv("GRADUS_BENCH_JSON")) {
    std::ofstream json(rows);
    json << "[{\"name\": \"resident, of the plan\", \"value\": " << mib(resident)
         << ", \"unit\": \"MiB\", \"ratio\": " << static_cast<double>(resident) / static_cast<double>(planned)
         << "},\n {\"name\": \"step, of that in memory\", \"value\": " << 1000 * seconds
         << ", \"unit\": \"ms\", \"ratio\": " << seconds / seconds_in_memory << "}]\n";
  }
  std::printf("%s\n", losses == wanted ? "the losses are equal" : "the losses differ");
  return losses == wanted ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: bench_offload FOLDER [STEPS]\n");
    return 2;
  }
  try {
    return run(argv[1], argc > 2 ? std::atoi(argv[2]) : 3);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench_offload: %s\n", e.what());
    return 1;
  }
}
