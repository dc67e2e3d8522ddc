#pragma once
// What a run needs of this trainer beside its steps: how the model is saved, what observes a step, the closing sample.

#include <filesystem>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>

#include <gradus/report/anomaly.hpp>
#include <gradus/report/profile.hpp>
#include <gradus/run/resumable.hpp>
#include <gradus/run/run.hpp>
#include <gradus/run/run_memory.hpp>
#ifdef GPT_MPI
#include <gradus/run/mpi_team.hpp>
#endif

#include "device.hpp"
#include "memory.hpp"
#include "model_file.hpp"
#include "options.hpp"
#include "starting_model.hpp"

namespace gpt {

using memory = gr::run_memory<device>;

/// The link to the host's memory, measured if a plan asks for it.
inline gr::host_link link_for(const options& o) {
  return o.memory_budget.empty() && !o.checkpoint.starts_with("offload:") ? gr::host_link{} : measured_link();
}

/// Calls f(team) on each of `count` ranks: threads of this process, or the processes that mpirun started. Returns the
/// exit status.
template <class F>
int on_ranks(int count, const F& f) {
#ifdef GPT_MPI
  return gr::on_mpi_ranks("gpt_train", count, f);
#else
  gr::on_ranks(count, f);
  return 0;
#endif
}

/// The trainer as a run saves it: model files have the model's settings, and ranks that share parameters gather them in
/// a plan of their own.
template <class Trainer>
class saved_training final : public gr::resumable_training<Trainer> {
  using base = gr::resumable_training<Trainer>;
  using path = std::filesystem::path;

 public:
  saved_training(memory& m, Trainer& t, const starting_model& start) : base(t), memory_(m), start_(start) {}

  void describe(gr::run_metadata& about) const override {
    base::describe(about);
    add_settings(this->net_, about);
    start_.describe(this->net_, about);
  }
  void resume(const gr::run_metadata& from, long long steps) override {
    read_settings(this->net_, from);
    base::resume(from, steps);
  }
  void write_model(const path& file, const std::function<void()>& before_each) override {
    gr::run_metadata about;
    start_.describe(this->net_, about);
    with_all_parameters([&] { save_model(this->net_, file, before_each, about); });
  }
  void read_with_writer(const std::function<bool()>& next) override {
    with_all_parameters([&] { base::read_with_writer(next); });
  }

 private:
  template <class F>
  void with_all_parameters(const F& f) {
    if (!this->shares_parameters()) return f();
    struct back {
      saved_training& of;
      ~back() {
        of.t_.release_values();
        of.memory_.use(training_plan);
      }
    } at_end{*this};
    memory_.use(reading_plan);
    f();
  }
  memory& memory_;
  const starting_model& start_;
};

/// Observes the steps for --profile, --anomaly and --memory-report.
class step_observers {
 public:
  step_observers(const options& o, memory& m, bool scales_loss) : options_(o), memory_(m), anomalies_(!scales_loss) {}

  /// Returns whether something observes this step, which then cannot be a graph.
  bool begin(long long step) {
    anomalies_.step = static_cast<std::size_t>(step);
    tracing_ = !options_.memory_report.empty() && taken_ == 1;  // not the first step: it allocates the optimizer state
    gr::observer* const anomalies = options_.anomaly ? &anomalies_ : nullptr;
    gr::observer* const watching = options_.profile ? &profile : anomalies;
    if (tracing_) memory_.start_trace(anomalies);
    else memory_.observe(watching);
    clock_ = {};
    return tracing_ || watching != nullptr;
  }
  /// Writes the memory's picture, if the step was traced.
  void end(gr::run& run, const chosen_memory& plan) {
    ++taken_;
    const double seconds = clock_.seconds();
    const gr::step_trace* const trace = tracing_ ? &memory_.finish_trace() : nullptr;
    memory_.observe(nullptr);
    if (trace == nullptr) profile.add_step(seconds);
    else run.attempt([&] { write_report(options_.memory_report, plan, trace); });
  }

  gr::profiler profile{[this] { memory_.persistent.stream().synchronize(); }};

 private:
  const options& options_;
  memory& memory_;
  gr::anomaly_finder anomalies_;
  gr::stopwatch clock_;
  long long taken_ = 0;
  bool tracing_ = false;
};

/// Says that the last update was skipped, if --skip-spikes did that.
template <class Trainer>
void report_spike(gr::run& run, const Trainer& t, long long& known) {
  if (t.spikes.spikes == std::exchange(known, t.spikes.spikes)) return;
  run.line(
      line("step %lld: the update is skipped: its gradient norm is %.1f standard deviations above the mean of %.3g",
           run.state.step, t.spikes.score, t.spikes.mean()));
}

/// Prints what a model of a run writes. The CPU writes it, on a GPU with a copy.
template <class Net>
void print_samples_of(const Net& net, gr::run& run, const samples& wanted, memory& m,
                      const std::function<bool()>& stop) {
  const std::string tokenizer = tokenizer_beside(run.folder() / "model.safetensors");
  if constexpr (std::is_same_v<Net, trained_network>) {
    print_samples(net, m.pooled, tokenizer, wanted, stop);
  } else {
    gr::stream host_stream;
    gr::host_resource heap;
    gr::pool_resource pool(heap);
    gr::context<gr::cpu> host{host_stream, pool};
    trained_network on_host;
    gr::nn::for_each_adapter_slot(net, [&](std::string_view name, const auto& slot) {
      if (slot)
        gr::nn::add_adapters(
            on_host, [&](std::string_view other) { return other == name; }, slot->settings);
    });
    gr::init(on_host, host, gr::normal_init{});
    gr::copy(net, on_host);
    gr::run_metadata settings;
    add_settings(net, settings);
    read_settings(on_host, settings);
    print_samples(on_host, host, tokenizer, wanted, stop);
  }
}
inline samples samples_of(const options& o, const run_data& data) {
  return {o.sample, o.seed, o.sample_prompts, data.chat_format()};
}
/// Prints, every o.sample_every steps, what the model writes so far.
template <class Trainer>
void print_samples_if_due(gr::run& run, const options& o, memory& m, const Trainer& t, const run_data& data,
                          const std::function<bool()>& stop) {
  if (!run.leads() || o.sample_every == 0 || run.over() || run.state.step % o.sample_every != 0 || stop()) return;
  run.line("a sample after step " + std::to_string(run.state.step) + ":");
  print_samples_of(t.net, run, samples_of(o, data), m, stop);
}
/// Prints what the model of a run writes (unless it ended early), and how to get more of it.
template <class Trainer>
void print_closing_samples(gr::run& run, const options& o, memory& m, const Trainer& t, const run_data& data,
                           const std::function<bool()>& stop) {
  if (!run.leads()) return;
  if (run.over() && o.sample > 0 && data.readable() && (o.save || !t.shares_parameters()) && !stop()) {
    run.line("a sample:");
    m.free_workspace();  // makes room for keys and values
    const samples wanted = samples_of(o, data);
    if (t.shares_parameters()) print_samples(run.folder() / "model.safetensors", wanted, stop);
    else print_samples_of(t.net, run, wanted, m, stop);
  }
  if (o.save) run.line("more of it: scripts/sample.sh " + run.folder().string());
}

}  // namespace gpt
