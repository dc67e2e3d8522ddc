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
#include <gradus/run/shared_checkpoint.hpp>
#include <gradus/run/stopwatch.hpp>

#include "model_file.hpp"
#include "ranks.hpp"
#include "run_state.hpp"

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
    tracing_ = !options_.memory_report.empty() && taken_ == 1;  // not the first step: it allocates the optimizer state
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

inline constexpr std::size_t a_validation = 8192, last_validation = 32768;  ///< tokens

/// Every rank calls its functions in the same order. Rank 0 leads: folder, log and screen are its own.
template <class Trainer, class Memory>
class run {
 public:
  run_state state;

  /// Makes a new folder, or continues a resumed run's, and reports the start. `stop` tells whether the program was
  /// asked to end.
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
        lock_(std::move(from.lock)),
        saver_(
            [this] {
              report_->record_held();  // the log gets every step that a checkpoint has, whatever ends the run
              if (t_.shares_states()) team_.begin_round();
              check();
            },
            [this] {
              if (t_.shares_states()) team_.begin_round();
              write_checkpoint();
            },
            [this](auto& text) { report_->warn(text); }, o.save_retry) {
    state = from.state;
    state.loss = std::nan("");
    state.fraction = o.fraction(state.step, state.elapsed);
    ended_before_ = state.fraction >= 1;
    first_ = state.step;
    before_ = state.elapsed;
    flops_per_token_ = training_flops_per_token(facts.parameters - unused_parameters(sizes));
    if (!team_.leads()) return;
    make_folder();
    report_.emplace(folder_,
                    gr::reporter_names{.program = "gpt_train",
                                       .title = std::string("Training a ") + sizes.title,
                                       .machine_flops = facts.machine_flops,
                                       .loss = data.files.bytes() ? "nats a byte" : "nats a token",
                                       .best = o.save ? "best.safetensors" : ""},
                    from.state.step);
    if (!resumed_) {
      lock_ = std::make_unique<gr::run_lock>(folder_);
      write_settings();
    } else if (report_->attempt([this] { write_settings(); })) {
      report_->attempt([this] { write_report(options_.memory_report, plan_, nullptr); });
    }
    if (o.tensorboard) report_->write_events(state.step);
    if (!from.damage.empty())
      report_->warn(from.damage + "; resuming from " + from.path.filename().string() + ", step " +
                    std::to_string(state.step));
    report_start(*report_, folder_, o, plan, data, facts, state);
    saver_.set_pace(o.save_seconds, o.save_steps);
    if (!t_.shares_states()) saver_.write_in_background([this] { return prepare_checkpoint(); });
  }

  /// Whether there is another step to take; not if a rank was asked to end.
  bool next() {
    if (state.fraction >= 1 || early_) return false;
    now_ = team_.agree(elapsed(), stop_());
    return !now_.stop;
  }
  /// The learning rate of the next step.
  double next_rate() const { return options_.rate(state.step, options_.fraction(state.step, now_.elapsed)); }

  /// Waits for a checkpoint that is being written: the update changes what it is written from.
  void begin_update() {
    saver_.finish();
    updating_ = true;
  }
  /// Counts the step and holds its report: its loss may be on its way. On a GPU it shows the step before, and waits
  /// for no loss.
  void end_update(const typename Trainer::step_loss& loss, double seconds) {
    now_ = team_.agree(elapsed(), stop_());
    updating_ = false;
    if (report_) report_->show_held();
    ++state.step;
    state.tokens += static_cast<double>(run_data::batch_tokens) * options_.accumulate;
    state.training_seconds += seconds;
    state.elapsed = now_.elapsed;
    state.fraction = options_.fraction(state.step, state.elapsed);
    state.tokens_per_second = state.tokens / state.training_seconds;
    state.flops = flops_per_token_ * state.tokens_per_second;
    state.validation = std::nan("");
    state.bits_per_byte = 0;
    state.fields.clear();
    state.note.clear();
    if (!report_) return;
    loss_ = loss;
    hold();
    if constexpr (!on_gpu) report_->held_loss();
    if (options_.anomaly && !t_.shares_parameters()) check_parameters();
  }
  /// The validation loss, after the steps that --eval-every names and after the last one.
  void validate_if_due() {
    if (now_.stop) return;
    if (state.fraction >= 1) validate(last_validation, stop_);
    else if (state.step % options_.eval_every == 0) validate(a_validation, stop_);
  }
  /// Saves what is due. Then shows the step: stdout may be a closed pipe.
  void save_and_show() {
    if (now_.stop) return;
    if (team_.leads()) restore_folder();
    if (state.fraction >= 1) {
      save_at_end();
    } else {
      keep_best();
      if (options_.save) saves([this] { return saver_.save_if_due(state.step), std::string(); });
    }
    if (report_ && (!on_gpu || !std::isnan(state.validation))) report_->show_held();
  }

  /// Ends the steps. If the run was asked to end before its last one, drops an unfinished step; the model is saved
  /// first, and validated then. Returns whether the run had all its steps.
  bool end_steps() {
    if (state.fraction >= 1 && !ended_before_ && !now_.stop) return true;
    t_.abandon();
    if (report_) report_->record_held();
    save_at_end();
    validate(a_validation, [] { return false; });
    if (keep_best() && options_.save) unsaved_ = saves([this] { return unsaved_.empty() ? saver_.save() : unsaved_; });
    if (report_) report_->show_held();
    return state.fraction >= 1;
  }
  /// Saves the last whole step after an exception in the loop (the text has changed, say, or memory is short), unless
  /// the model diverged. The caller rethrows the exception.
  void save_after(const std::exception& e) {
    const bool spoilt =
        dynamic_cast<const diverged*>(&e) != nullptr || dynamic_cast<const gr::anomaly_finder::found*>(&e) != nullptr;
    if (!report_ || spoilt || !options_.save || updating_ || state.step == first_) return;
    if (t_.shares_states()) {
      report_->warn("not saved: ranks share optimizer states, and one has ended; resume from the last checkpoint");
      return;
    }
    report_->warn(std::string(e.what()) + "; the run is saved and ends");
    try {
      save_at_end();
    } catch (const std::exception& problem) { unsaved_ = problem.what(); }
    if (!unsaved_.empty()) report_->warn(unsaved_);
    else report_->line("saved " + model_file().string() + " after step " + std::to_string(state.step));
  }
  /// Reports the end. Throws gr::error if the run could not be saved.
  void end(double peak_mib) {
    if (!unsaved_.empty()) throw gr::error(unsaved_);
    state.loss_scale = t_.loss_scale();
    if (!report_) return;
    if (options_.save) report_->line("saved " + model_file().string());
    report_end(*report_, plan_, state, bytes_a_token(state.fraction >= 1 ? last_validation : a_validation), peak_mib);
    if (Trainer::scales_loss)
      report_->line(line("loss scale %g at the end; updates skipped where gradients overflowed: %zu", state.loss_scale,
                         static_cast<std::size_t>(state.step) - t_.optimizer.steps()));
  }
  void report_profile(const gr::profiler& profile, const gr::machine_rates& rates) {
    if (!report_) return;
    report_->line(gr::profile_table(profile, rates, gr::output_columns()));
    report_->attempt([&] { gr::write_file_atomically(folder_ / "profile.txt", gr::profile_table(profile, rates)); });
  }
  void report_memory(const gr::step_trace& step) {
    if (report_) report_->attempt([&] { write_report(options_.memory_report, plan_, &step); });
  }
  /// Prints what the model writes (unless the run ended early), and how to get more of it.
  void print_closing_sample(bool finished) {
    if (!report_) return;
    const bool readable = data_.files.bytes() || data_.files.tokenizer() != nullptr;
    const bool has_model = options_.save || (!on_gpu && !t_.shares_parameters());
    if (finished && options_.sample > 0 && readable && has_model && !stop_()) {
      report_->line("a sample:");
      memory_.free_workspace();  // makes room for keys and values
      sample_by(t_.net, memory_.pooled);
    }
    if (options_.save) report_->line("more of it: scripts/sample.sh " + folder_.string());
  }

 private:
  std::filesystem::path model_file() const { return folder_ / "model.safetensors"; }
  /// Seconds of the run, those before it was resumed included.
  double elapsed() const { return before_ + clock_.seconds(); }
  // Writes the plan's picture while the folder is empty: if that fails, the same command works again.
  void make_folder() {
    folder_ = resumed_ ? std::filesystem::path(options_.resume) : gr::make_run_folder(options_.out);
    if (!resumed_) write_report(options_.memory_report, plan_, nullptr);
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
    report_->attempt(folder_failed_, [&] {
      const bool whole = !lock_->holds(folder_);  // the log may have made it again
      std::filesystem::create_directories(folder_, problem);
      write_settings();
      if (whole) lock_ = std::make_unique<gr::run_lock>(folder_);
      report_->warn(whole ? folder_.string() + ": was removed; it is made again"
                          : (folder_ / "config").string() + ": was removed; it is written again");
      if (!std::filesystem::exists(folder_ / "best.safetensors", problem))
        state.best_validation = std::numeric_limits<double>::infinity();
      saver_.hurry();
    });
  }

  void hold() {
    if (!loss_) return;
    report_->hold(state, [loss = *loss_, step = state.step] {
      const double value = loss.value();
      check_finite("loss", value, step);
      return value;
    });
  }
  void check_parameters() const {
    if (const std::string name = gr::find_not_finite(t_.net); !name.empty())
      throw gr::error("not saved: the parameter " + name + " is no longer finite; try a lower --lr");
  }
  // Saves: rank 0 tries as often as it has to, and the others join each try if they have a part in it. Returns why
  // rank 0 could not save.
  template <class F>
  std::string saves(const F& by_leader) {
    if (!t_.shares_states()) return team_.leads() ? by_leader() : "";
    return team_.rounds(by_leader, [this, checked = false]() mutable {
      if (!std::exchange(checked, true)) check();
      else write_checkpoint();
    });
  }
  void check() {
    if (!t_.shares_parameters()) return check_parameters();
    if (team_.agree(0, !gr::own_values_are_finite(memory_.persistent, t_.pieces())).stop)
      throw gr::error("not saved: a parameter is no longer finite; try a lower --lr");
  }
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
    const auto keep = static_cast<std::size_t>(options_.keep_checkpoints);
    const gr::run_metadata metadata = team_.leads() ? metadata_now() : gr::run_metadata{};
    gr::write_checkpoint(gr::checkpoint_path(folder_), memory_.persistent, t_.net, t_.optimizer, metadata,
                         gr::older_checkpoint_paths(folder_, keep), t_.pieces(), team_.trained());
    if (team_.leads()) gr::remove_old_checkpoints(folder_, keep);
  }
  // Rank 0 writes the model. If ranks share parameters, all gather each tensor before it is written.
  void write_model(const char* name) {
    const std::filesystem::path path = folder_ / name;
    if (!t_.shares_parameters()) {
      if (team_.leads()) save_model(t_.net, path);
      return;
    }
    memory_.use(reading_plan);
    std::string problem;
    if (team_.leads()) {
      try {
        save_model(t_.net, path, [this] { team_.begin_round(); });
      } catch (const gr::rank_failed&) { throw; } catch (const gr::error& e) {
        problem = e.what();
      }
      team_.end_rounds();
    } else {
      bool more = true;
      gr::for_each_tensor(t_.net, [&](std::string_view, const auto& p) {
        more = more && team_.joins_round();
        if (more) static_cast<void>(p.value().data());
      });
      if (more) team_.joins_round();  // the end
    }
    t_.release_values();
    memory_.use(training_plan);
    if (problem = team_.from_leader(problem); !problem.empty()) throw gr::error(problem);
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
    unsaved_ = saves([this] { return saver_.save(); });
    if (t_.shares_states() ? team_.from_leader(!unsaved_.empty()) : !unsaved_.empty()) return;
    const auto write = [this] {
      if (t_.shares_parameters()) team_.begin_round();
      restore_folder();
      write_model("model.safetensors");
    };
    const auto by_leader = [&] {
      return gr::retry(
          write, [this](auto& text) { report_->warn(text); }, options_.save_retry);
    };
    if (t_.shares_parameters()) unsaved_ = team_.rounds(by_leader, [this] { write_model("model.safetensors"); });
    else if (team_.leads()) unsaved_ = by_leader();
  }
  // Of the validations that --eval-every asks for; the last one of a run is over more tokens.
  bool keep_best() {
    if (!team_.from_leader(state.step % options_.eval_every == 0 && state.validation < state.best_validation)) {
      count_worse();
      return false;
    }
    worse_ = 0;
    bool kept = true;
    if (options_.save) try {
        write_model("best.safetensors");
      } catch (const gr::rank_failed&) { throw; } catch (const gr::error& e) {
        kept = false;
        if (report_) report_->attempt(best_failed_, [&] { throw e; });
      }
    best_failed_ = best_failed_ && !kept;
    if (!team_.from_leader(kept)) return false;
    state.best_validation = state.validation;
    return true;
  }

  // Ends the run when --early-stop validations in a row have brought no new best.
  void count_worse() {
    if (early_ || options_.early_stop == 0 || state.step % options_.eval_every != 0) return;
    if (++worse_ < options_.early_stop) return;
    if (report_) report_->line("early stop: the last " + std::to_string(worse_) + " validations brought no new best");
    early_ = true;
  }
  // The mean loss of about `tokens` tokens, in windows spread evenly over the validation data, which ranks divide; none
  // if a rank's `stop` says to end.
  std::optional<double> validation_loss(std::size_t tokens, const std::function<bool()>& stop) {
    memory_.use(evaluation_plan);
    const std::size_t batches = data_.validation_batches(tokens), ranks = static_cast<std::size_t>(team_.size());
    double sum = 0;
    std::size_t done = 0;
    for (; done < batches && !(now_.stop = team_.agree(0, stop()).stop); done += ranks) {
      const std::size_t own = std::min(done + static_cast<std::size_t>(team_.rank()), batches - 1);
      const auto batch = data_.validation.template spread_batch<batch_size>(own, batches);
      const std::vector<double> losses =
          team_.gather(static_cast<double>(t_.evaluate(batch.inputs.data(), batch.targets.data())));
      for (std::size_t i = 0; i < ranks && done + i < batches; ++i) sum += losses[i];
    }
    memory_.use(training_plan);
    if (done < batches) return std::nullopt;
    return sum / static_cast<double>(batches);
  }
  void validate(std::size_t tokens, const std::function<bool()>& stop) {
    if (const std::string files = replaced_ || !report_ ? "" : data_.files.replaced_files(); !files.empty()) {
      report_->warn(files +
                    ": rewritten, replaced or removed since it was opened; the run continues with what it opened, and "
                    "can be resumed with nothing else");
      replaced_ = true;
    }
    const std::optional<double> loss = validation_loss(tokens, stop);
    state.validation = loss.value_or(std::nan(""));
    if (!report_) return;
    if (loss) check_finite("validation loss", state.validation, state.step);  // no other loss has the last update
    if constexpr (requires { t_.net.expert_load(); }) report_load(t_.net.expert_load(), state);
    if (loss)
      if (const double bytes = bytes_a_token(tokens); bytes > 0) state.bits_per_byte = *loss / bytes / std::log(2.0);
    state.elapsed = elapsed();
    hold();
  }
  // Bytes of text that a token of a validation stands for, on average; 0: unknown.
  double bytes_a_token(std::size_t tokens) {
    if (bytes_of_ != tokens) bytes_a_token_ = data_.bytes_a_token(bytes_of_ = tokens);
    return bytes_a_token_;
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
  rank_team::moment now_ = {};
  bool ended_before_ = false;  // but for its model
  std::filesystem::path folder_;
  std::optional<gr::run_reporter> report_;  // rank 0's
  std::unique_ptr<gr::run_lock> lock_;
  gr::run_saver saver_;
  std::optional<typename Trainer::step_loss> loss_;  // of the last step
  std::string unsaved_;                              // why the run could not be saved
  bool updating_ = false;                            // an update is under way
  bool early_ = false;                               // --early-stop ends the run
  int worse_ = 0;                                    // validations since the best one
  bool folder_failed_ = false, best_failed_ = false, replaced_ = false;
  std::size_t bytes_of_ = 0;  // tokens of the validation for which the next was computed
  double before_ = 0, flops_per_token_ = 0, bytes_a_token_ = 0;
  long long first_ = 0;
  gr::stopwatch clock_;
};

}  // namespace gpt
