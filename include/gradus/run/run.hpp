#pragma once
// A training run around its loop: folder, lock, log, checkpoints, validation, interrupts and the end.
// Unless it is compiled separately it includes nlohmann/json, so gradus.hpp does not include it.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <exception>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../core/config.hpp"
#include "checkpoint.hpp"
#include "resumable.hpp"
#include "run_folder.hpp"
#include "run_reporter.hpp"
#include "run_saver.hpp"
#include "stopwatch.hpp"
#include "team.hpp"

namespace gradus {

/// Training has failed: the parameters are not worth saving.
struct diverged : error {
  using error::error;
};
/// Throws diverged if a loss is infinite or NaN. `what` names it.
void check_finite(std::string_view what, double loss, long long step);

/// What a run is asked for.
struct run_options {
  reporter_names names = {};          ///< in reports; `names.best` is the best model's file, too
  std::string out = {}, resume = {};  ///< folder of a new run (empty: `runs/<date>-<time>`), or of the one to resume
  /// The run's length is the shorter of both; 0: not limited by it. One of them must be above 0.
  long long steps = 0;
  double minutes = 0;
  /// The learning rate of a step, the fraction of the run being over before it; none: unknown to reports.
  std::function<double(long long step, double fraction)> rate = {};
  double units_per_step = 0;  ///< tokens or samples (`names.unit`) of a step, on all ranks together
  double flops_per_unit = 0;  ///< floating-point operations of training on one; 0: unknown
  bool late_losses = false;   ///< they are on their way from a GPU: a step is shown after the next one

  long long eval_every = 0;  ///< steps between validations; 0: only after the last step
  int early_stop = 0;        ///< validations in a row without a new best that end the run; 0: never

  bool save = true;           ///< checkpoints, and the model
  double save_seconds = 300;  ///< between checkpoints; 0: not by the clock
  long long save_steps = 0;   ///< between checkpoints; 0: not by steps
  double save_retry = 300;    ///< seconds in which the end tries to save, as on a full disk
  int keep_checkpoints = 2;   ///< the last one, and those before it
  /// Name of the model's file or folder in the run's; empty: none is written, and a run that is over can be resumed.
  std::string model = "model";
  /// A file that write_settings(folder) writes, and that is written again if it is removed; empty: none.
  std::string settings = {};
  std::function<void(const std::filesystem::path& folder)> write_settings = {};
  std::string use_command = {};  ///< what to do with a run's folder, for advice: "scripts/sample.sh"
  bool tensorboard = false;

  /// Values of the identity that files of earlier versions imply.
  std::map<std::string, std::string> implied = {};

  /// The fraction of the run that is over after `step` steps and `elapsed` seconds: the larger of both.
  double fraction(long long step, double elapsed) const {
    const double by_steps = steps > 0 ? static_cast<double>(step) / static_cast<double>(steps) : 0;
    return minutes > 0 ? std::max(by_steps, elapsed / (60 * minutes)) : by_steps;
  }
};

/// A run's progress and the figures of its last step. Checkpoints hold them; log and screen show them.
struct run_state : step_report {
  double training_seconds = 0;  ///< without validation
  double best_validation = std::numeric_limits<double>::infinity();
  double planned_rate = 0;  ///< learning rate that the checkpoint planned for the next step; 0: unknown
};

/// What a validation found.
struct validation {
  double loss = 0;
  double bits_per_byte = 0;            ///< 0: unknown
  std::vector<log_field> fields = {};  ///< of the log's line, besides these
  std::string note = {};               ///< a line on the screen
};

/// A training run around its loop. Every rank makes one and calls its functions in the same order; folder, log and
/// screen are rank 0's.
///
///     gr::run run(options, identity);              // finds the checkpoint to resume
///     gr::resumable_model saved(ctx, net, optimizer);
///     run.begin(saved);                            // reads it, or makes a folder
///     try {
///       while (run.next()) {
///         optimizer.options.lr = run.rate();
///         ...                                      // forward, backward
///         run.wait_for_checkpoint();
///         optimizer.step(ctx);
///         run.step_done({.loss = loss});
///         if (run.due()) run.validated(validation);
///         run.save_and_show();
///       }
///     } catch (const std::exception& e) { run.save_after(e); throw; }
///     run.end();
///
/// Whatever ends it (Ctrl-C, an exception, a full disk), a run has saved its last whole step before.
class run {
 public:
  run_state state;

  /// `identity` is what must be the same when the run is resumed, and on all ranks. `stop` tells whether the program
  /// was asked to end (see interrupts). Finds and locks the run to resume. Throws gradus::error, also for options
  /// without steps and minutes, and bad_flag if that run has had all its steps.
  run(run_options o, run_metadata identity, team& ranks, std::function<bool()> stop);
  /// A rank alone.
  run(
      run_options o, run_metadata identity, std::function<bool()> stop = [] { return false; });
  run(const run&) = delete;
  run& operator=(const run&) = delete;
  ~run();

  bool resumed() const { return resumed_; }
  /// Whether folder, log and screen are this rank's.
  bool leads() const { return team_.leads(); }
  const std::filesystem::path& folder() const { return folder_; }
  const run_options& options() const { return options_; }

  /// Reads the checkpoint into the model, which must outlive this, or an older one if it is damaged; or makes the
  /// folder of a new run. From here on a run that ends saves.
  void begin(resumable& model);

  /// Whether there is another step to take; not if a rank was asked to end.
  bool next();
  /// The learning rate of the next step, where run_options has a rate.
  double rate();
  /// Call it before each update, which changes what a checkpoint in the background is written from.
  void wait_for_checkpoint();
  /// Counts a step. If it is given as a function, `figures` waits for the step's figures, and is called later if
  /// late_losses. Throws gradus::error unless the step called wait_for_checkpoint().
  void step_done(std::function<step_figures()> figures);
  void step_done(const step_figures& figures) {
    step_done([figures] { return figures; });
  }
  /// Whether the step is one to validate after: as eval_every says, and the last one.
  bool due() const { return !now_.stop && (over() || at_eval()); }
  /// Whether the run has had all its steps.
  bool over() const { return state.fraction >= 1; }
  /// The means of value(i), a std::array, for i = 0 .. count - 1, which ranks divide; nothing if the run is asked to
  /// end.
  template <class F>
  auto mean(std::size_t count, const F& value) {
    auto sums = decltype(value(count)){};
    const auto ranks = static_cast<std::size_t>(team_.size()), rank = static_cast<std::size_t>(team_.rank());
    for (std::size_t done = 0; done < count; done += ranks) {
      if (asked_to_end()) return std::optional<decltype(sums)>();
      const auto own = value(std::min(done + rank, count - 1));
      for (std::size_t k = 0; k < sums.size(); ++k) {
        const std::vector<double> all = team_.gather(own[k]);
        for (std::size_t i = 0; i < ranks && done + i < count; ++i) sums[k] += all[i];
      }
    }
    for (double& sum : sums) sum /= static_cast<double>(count);
    return std::optional(sums);
  }
  /// Reports a validation after the last step; nothing: it was asked to end. Throws diverged.
  void validated(const std::optional<validation>& found);
  /// Saves what is due; after the last step the model as well. Then shows the step: stdout may be a closed pipe.
  void save_and_show();
  /// Throws gradus::error if a parameter is not finite.
  void check_parameters();

  /// Saves the last whole step after an exception in the loop, unless the model diverged. Rethrow the exception.
  void save_after(const std::exception& e);
  /// Ends the steps. If the run was asked to end before its last one, drops an unfinished step and saves; it can be
  /// validated then. Returns whether the run had all its steps.
  bool end_steps();
  /// Ends the steps unless that was done, and reports the end. Throws gradus::error if the run could not be saved.
  void end();

  /// What only rank 0 does; on the others nothing.
  void line(std::string_view text);
  void log(const std::vector<log_field>& fields);
  void warn(std::string_view text);
  /// Calls f(); its error is a warning.
  template <class F>
  void attempt(const F& f) {
    if (report_) report_->attempt(f);
  }

 private:
  bool at_eval() const { return options_.eval_every > 0 && state.step % options_.eval_every == 0; }
  bool asked_to_end() { return now_.stop = team_.agree(0, !ending_ && stop_()).stop; }
  double elapsed() const { return before_ + clock_.seconds(); }
  std::string value_in(const run_metadata& found, const std::string& name) const;
  void find_checkpoint();
  void check_is_same_run(const run_metadata& found, const std::filesystem::path& file) const;
  void check_is_not_over(const std::filesystem::path& file) const;
  std::string advice() const;
  void read_checkpoint();
  void report_resumed();
  void make_folder();
  void restore_folder();
  run_metadata metadata_now();
  void write_checkpoint();
  std::function<void()> prepare_checkpoint();
  void write_model(const std::string& name);
  std::filesystem::path result() const;
  template <class F>
  std::string saves(const F& by_leader);
  void save_at_end();
  bool keep_best();
  void count_worse();
  void hold();

  run_options options_;
  run_metadata identity_;
  team alone_;
  team& team_;
  std::function<bool()> stop_;
  resumable* model_ = nullptr;
  bool resumed_;
  team::moment now_ = {};
  std::filesystem::path folder_;
  std::optional<run_reporter> report_;  // rank 0's
  std::unique_ptr<run_lock> lock_;
  std::filesystem::path found_;  // the checkpoint to resume
  std::size_t age_ = 0;          // saves, of checkpoint_path
  std::string damage_;           // of newer checkpoints; empty: none
  std::optional<run_saver> saver_;
  std::function<step_figures()> figures_;  // of the last step
  std::string unsaved_;                    // why the run could not be saved
  bool updating_ = false;                  // an update is under way
  bool ending_ = false, ended_ = false;    // end_steps() has begun; is done
  bool ended_before_ = false;              // but for its model
  bool stopped_early_ = false;             // --early-stop
  int worse_ = 0;                          // validations since the best one
  bool folder_failed_ = false, best_failed_ = false;
  double before_ = 0;
  long long first_ = 0;
  stopwatch clock_, step_clock_;
};

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "run.ipp"
#endif
