#pragma once
// A training run around its arithmetic: its folder and log, its checkpoints, validation, and its end.

#include <cmath>
#include <exception>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include <gradus/data/tokenizer_json.hpp>
#include <gradus/report/anomaly.hpp>
#include <gradus/report/profile.hpp>
#include <gradus/run/run_saver.hpp>
#include <gradus/run/stopwatch.hpp>

#include "model_file.hpp"
#include "ranks.hpp"
#include "run_state.hpp"
#include "shared_work.hpp"

namespace gpt {

/// Observes the steps for --profile, --anomaly and --memory-report.
template <class Memory>
class step_observers {
 public:
  step_observers(const options& o, Memory& memory, bool scales_loss)
      : options_(o), memory_(memory), anomalies_(!scales_loss) {}

  /// Returns whether something observes this step, which then cannot be a graph.
  bool begin(long long step) {
    anomalies_.step = static_cast<std::size_t>(step);
    tracing_ = !options_.memory_report.empty() && taken_ == 1;  // the first step differs: states come into being
    gr::observer* const anomalies = options_.anomaly ? &anomalies_ : nullptr;
    gr::observer* const watching = options_.profile ? &profile : anomalies;
    if (tracing_) memory_.start_trace(anomalies);
    else memory_.observe(watching);
    return tracing_ || watching != nullptr;
  }
  /// Returns the trace of the step, if it was traced.
  const gr::step_trace* end(double seconds) {
    ++taken_;
    const gr::step_trace* const trace = tracing_ ? &memory_.finish_trace() : nullptr;
    memory_.observe(nullptr);
    if (!tracing_) profile.add_step(seconds);
    return trace;
  }

  gr::profiler profile{[this] { memory_.persistent.stream().synchronize(); }};

 private:
  const options& options_;
  Memory& memory_;
  gr::anomaly_finder anomalies_;
  long long taken_ = 0;
  bool tracing_ = false;
};

template <class Trainer, class Memory>
class run {
 public:
  run_state state;

  /// Makes a new folder, or continues that of a resumed run, and reports the start. `stop` tells whether the program
  /// was asked to end.
  run(const options& o, const run_data& data, const chosen_memory& plan, Memory& memory, Trainer& t, rank_team& team,
      found_checkpoint from, const run_facts& facts, std::function<bool()> stop)
      : options_(o),
        data_(data),
        plan_(plan),
        memory_(memory),
        t_(t),
        team_(team),
        stop_(std::move(stop)),
        resumed_(facts.resumed),
        folder_(make_folder()),
        report_(folder_,
                {.program = "gpt_train",
                 .title = std::string("Training a ") + sizes.title,
                 .machine_flops = facts.machine_flops,
                 .loss = data.files.bytes() ? "nats a byte" : "nats a token",
                 .best = o.save ? "best.safetensors" : ""},
                from.state.step),
        lock_(std::move(from.lock)),
        saver_([this] { check(); }, [this] { write_checkpoint(); }, [this](auto& text) { report_.warn(text); },
               o.save_retry) {
    state = from.state;
    state.loss = std::nan("");
    state.fraction = o.fraction(state.step, state.elapsed);
    first_ = state.step;
    before_ = state.elapsed;
    flops_per_token_ = training_flops_per_token(facts.parameters - unused_parameters(sizes));
    if (!resumed_) {
      lock_ = std::make_unique<gr::run_lock>(folder_);
      write_settings();
    } else if (report_.attempt([this] { write_settings(); })) {
      report_.attempt([this] { write_report(options_.memory_report, plan_, nullptr); });
    }
    if (o.tensorboard) report_.write_events(state.step);
    if (!from.damage.empty())
      report_.warn(from.damage + "; resuming from " + from.path.filename().string() + ", step " +
                   std::to_string(state.step));
    report_start(report_, folder_, o, plan, data, facts, state);
    saver_.set_pace(o.save_seconds, o.save_steps);
    if (!t_.shares_states()) saver_.write_in_background([this] { return prepare_checkpoint(); });
  }

  /// Seconds of the run, those before it was resumed included.
  double elapsed() const { return before_ + clock_.seconds(); }

  /// Waits for a checkpoint that is being written: the update changes what it is written from.
  void begin_update() {
    saver_.finish();
    updating_ = true;
  }
  /// Counts the step and holds its report: its loss may be on its way. On a GPU it shows the step before, and waits
  /// for no loss. `now` is the time of the run.
  void end_update(const typename Trainer::step_loss& loss, double seconds, double now) {
    updating_ = false;
    report_.show_held();
    ++state.step;
    state.tokens += static_cast<double>(run_data::batch_tokens) * options_.accumulate;
    state.training_seconds += seconds;
    state.elapsed = now;
    state.fraction = options_.fraction(state.step, state.elapsed);
    state.tokens_per_second = state.tokens / state.training_seconds;
    state.flops = flops_per_token_ * state.tokens_per_second;
    state.validation = std::nan("");
    state.fields.clear();
    state.note.clear();
    loss_ = loss;
    hold();
    if constexpr (!on_gpu) report_.held_loss();
    if (options_.anomaly && !t_.shares_parameters()) check_parameters();
  }
  /// The validation loss, after the steps that --eval-every names and after the last one.
  void validate_if_due() {
    if (state.fraction >= 1) validate(last_validation, stop_);
    else if (state.step % options_.eval_every == 0) validate(a_validation, stop_);
  }
  /// Saves what is due. Then shows the step: stdout may be a closed pipe.
  void save_and_show() {
    const request_end last(*this);
    restore_folder();
    if (state.fraction >= 1) {
      save_at_end();
    } else {
      keep_best();
      if (options_.save) saver_.save_if_due(state.step);
    }
    if (!on_gpu || !std::isnan(state.validation)) report_.show_held();
  }

  /// Ends a run that was asked to end before its last step: the model is saved first, and validated then.
  void end_early() {
    t_.abandon();
    report_.record_held();
    {
      const request_end last(*this);
      save_at_end();
    }
    validate(a_validation, [] { return false; });
    const request_end last(*this);
    if (keep_best() && options_.save && unsaved_.empty()) unsaved_ = saver_.save();
    report_.show_held();
  }
  /// Saves the last whole step after an exception in the loop (the text has changed, say, or memory is short), unless
  /// the model diverged. The caller rethrows the exception.
  void save_after(const std::exception& e) {
    const bool spoilt =
        dynamic_cast<const diverged*>(&e) != nullptr || dynamic_cast<const gr::anomaly_finder::found*>(&e) != nullptr;
    if (spoilt || !options_.save || updating_ || state.step == first_) return;
    if (t_.shares_states()) {
      report_.warn("not saved: ranks share optimizer states, and one has ended; resume from the last checkpoint");
      return;
    }
    report_.warn(std::string(e.what()) + "; the run is saved and ends");
    try {
      save_at_end();
    } catch (const std::exception& problem) { unsaved_ = problem.what(); }
    if (!unsaved_.empty()) report_.warn(unsaved_);
    else report_.line("saved " + model_file().string() + " after step " + std::to_string(state.step));
  }
  /// Reports the end. Throws gr::error if the run could not be saved.
  void end(double peak_mib) {
    if (!unsaved_.empty()) throw gr::error(unsaved_);
    state.loss_scale = t_.loss_scale();
    if (options_.save) report_.line("saved " + model_file().string());
    report_end(report_, plan_, state, data_.bytes_a_token(state.fraction >= 1 ? last_validation : a_validation),
               peak_mib);
    if (Trainer::scales_loss)
      report_.line(line("loss scale %g at the end; updates skipped where gradients overflowed: %zu", state.loss_scale,
                        static_cast<std::size_t>(state.step) - t_.optimizer.steps()));
  }
  void report_profile(const gr::profiler& profile, const gr::machine_rates& rates) {
    report_.line(gr::profile_table(profile, rates, gr::output_columns()));
    report_.attempt([&] { gr::write_file_atomically(folder_ / "profile.txt", gr::profile_table(profile, rates)); });
  }
  void report_memory(const gr::step_trace& step) {
    report_.attempt([&] { write_report(options_.memory_report, plan_, &step); });
  }
  /// Prints what the model writes (unless the run ended early), and how to get more of it.
  void print_closing_sample(bool finished) {
    const bool readable = data_.files.bytes() || data_.files.tokenizer() != nullptr;
    const bool has_model = options_.save || (!on_gpu && !t_.shares_parameters());
    if (finished && options_.sample > 0 && readable && has_model && !stop_()) {
      report_.line("a sample:");
      memory_.free_workspace();  // makes room for keys and values
      sample_by(t_.net, memory_.pooled);
    }
    if (options_.save) report_.line("more of it: scripts/sample.sh " + folder_.string());
  }

 private:
  std::filesystem::path model_file() const { return folder_ / "model.safetensors"; }
  // Writes the plan's picture while the folder is empty: if that fails, the same command works again.
  std::filesystem::path make_folder() const {
    if (resumed_) return options_.resume;
    const std::filesystem::path folder = gr::make_run_folder(options_.out);
    write_report(options_.memory_report, plan_, nullptr);
    return folder;
  }
  // What sampling and resuming need besides a checkpoint.
  void write_settings() {
    write_config(folder_, options_);
    if (data_.files.tokenizer() != nullptr)
      gr::write_tokenizer_json(folder_ / "tokenizer.json", *data_.files.tokenizer());
  }
  // If the folder was removed, makes it again, and soon a checkpoint in it.
  void restore_folder() {
    std::error_code problem;
    if (std::filesystem::exists(folder_ / "config", problem)) return;
    report_.attempt(folder_failed_, [&] {
      const bool whole = !lock_->holds(folder_);  // the log may have made it again
      std::filesystem::create_directories(folder_, problem);
      write_settings();
      if (whole) lock_ = std::make_unique<gr::run_lock>(folder_);
      report_.warn(whole ? folder_.string() + ": was removed; it is made again"
                         : (folder_ / "config").string() + ": was removed; it is written again");
      if (!std::filesystem::exists(folder_ / "best.safetensors", problem))
        state.best_validation = std::numeric_limits<double>::infinity();
      saver_.hurry();
    });
  }

  void hold() {
    if (!loss_) return;
    report_.hold(state, [loss = *loss_, step = state.step] {
      const double value = loss.value();
      check_finite("loss", value, step);
      return value;
    });
  }
  void check_parameters() const {
    if (const std::string name = gr::find_not_finite(t_.net); !name.empty())
      throw gr::error("not saved: the parameter " + name + " is no longer finite; try a lower --lr");
  }
  // Before a save. The log gets every step that a checkpoint has, whatever ends the run.
  void check() {
    report_.record_held();
    if (!t_.shares_parameters()) return check_parameters();
    ask(request::check_values);
    if (!shared_values_are_finite(t_, memory_.persistent, team_))
      throw gr::error("not saved: a parameter is no longer finite; try a lower --lr");
  }
  // Asks something of the other ranks, if they share what is saved.
  void ask(request what) {
    if (t_.shares_states()) team_.from_leader(what);
  }
  // While it lives, rank 0 asks things of the others, who then go on.
  class request_end {
   public:
    explicit request_end(run& of) : of_(of) {}
    request_end(const request_end&) = delete;
    request_end& operator=(const request_end&) = delete;
    ~request_end() noexcept(false) {
      if (std::uncaught_exceptions() == exceptions_) of_.ask(request::go_on);
    }

   private:
    run& of_;
    int exceptions_ = std::uncaught_exceptions();
  };
  gr::run_metadata metadata_now() {
    restore_folder();
    state.loss_scale = t_.loss_scale();
    state.clean_steps = t_.clean_steps();
    gr::run_metadata metadata = metadata_of(options_, data_, state);
    add_settings(t_.net, metadata);
    return metadata;
  }
  void write_checkpoint() {
    if (!t_.shares_states()) return prepare_checkpoint()();
    const gr::run_metadata metadata = metadata_now();
    ask(request::write_checkpoint);
    write_shared_checkpoint(t_, memory_.persistent, team_, folder_, static_cast<std::size_t>(options_.keep_checkpoints),
                            metadata);
  }
  // If ranks share parameters, the others gather each tensor with this one.
  void write_model(const std::filesystem::path& path) {
    if (!t_.shares_parameters()) return save_model(t_.net, path);
    ask(request::write_model);
    memory_.use(reading_plan);
    std::exception_ptr problem;
    try {
      save_model(t_.net, path, [this] { ask(request::next_tensor); });
    } catch (const gr::rank_failed&) { throw; } catch (const gr::error&) {
      problem = std::current_exception();
    }
    ask(request::go_on);
    t_.release_values();
    memory_.use(training_plan);
    if (problem) std::rethrow_exception(problem);
  }
  std::function<void()> prepare_checkpoint() {
    const gr::run_metadata metadata = metadata_now();
    return [folder = folder_, keep = static_cast<std::size_t>(options_.keep_checkpoints),
            checkpoint = gr::prepare_checkpoint(memory_.persistent, t_.net, t_.optimizer, metadata)] {
      checkpoint.write(gr::checkpoint_path(folder), gr::older_checkpoint_paths(folder, keep));
      gr::remove_old_checkpoints(folder, keep);
    };
  }
  // The run first, then the model alone, for use.
  void save_at_end() {
    if (!options_.save) return;
    unsaved_ = saver_.save();
    if (!unsaved_.empty()) return;
    const auto write = [this] {
      restore_folder();
      write_model(model_file());
    };
    unsaved_ = gr::retry(
        write, [this](auto& text) { report_.warn(text); }, options_.save_retry);
  }
  // Of the validations that --eval-every asks for; the last one of a run is over more tokens.
  bool keep_best() {
    if (state.step % options_.eval_every != 0 || !(state.validation < state.best_validation)) return false;
    const auto write = [this] { write_model(folder_ / "best.safetensors"); };
    if (options_.save && !report_.attempt(best_failed_, write)) return false;
    state.best_validation = state.validation;
    return true;
  }

  void validate(std::size_t tokens, const std::function<bool()>& stop) {
    if (const std::string files = replaced_ ? "" : data_.files.replaced_files(); !files.empty()) {
      report_.warn(files +
                   ": rewritten, replaced or removed since it was opened; the run continues with what it opened, and "
                   "can be resumed with nothing else");
      replaced_ = true;
    }
    const std::optional<double> loss = validation_loss(t_, memory_, data_, team_, tokens, stop);
    state.validation = loss.value_or(std::nan(""));
    if (loss) check_finite("validation loss", state.validation, state.step);  // no other loss has the last update
    if constexpr (requires { t_.net.expert_load(); }) report_load(t_.net.expert_load(), state);
    state.elapsed = elapsed();
    hold();
  }
  template <class Net, class D>
  void sample_by(const Net& net, gr::context<D>& ctx) {
    if (t_.shares_parameters()) return print_sample(model_file(), options_.sample, options_.seed, stop_);
    if constexpr (std::is_same_v<Net, network>)
      print_sample(net, ctx, tokenizer_beside(model_file()), options_.sample, options_.seed, stop_);
    else print_sample(model_file(), options_.sample, options_.seed, stop_);
  }

  const options& options_;
  const run_data& data_;
  const chosen_memory& plan_;
  Memory& memory_;
  Trainer& t_;
  rank_team& team_;
  std::function<bool()> stop_;
  bool resumed_;
  std::filesystem::path folder_;
  gr::run_reporter report_;
  std::unique_ptr<gr::run_lock> lock_;
  gr::run_saver saver_;
  std::optional<typename Trainer::step_loss> loss_;  // of the last step
  std::string unsaved_;                              // why the run could not be saved
  bool updating_ = false;                            // an update is under way
  bool folder_failed_ = false, best_failed_ = false, replaced_ = false;
  double before_ = 0, flops_per_token_ = 0;
  long long first_ = 0;
  gr::stopwatch clock_;
};

}  // namespace gpt
