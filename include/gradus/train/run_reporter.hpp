#pragma once
// What a run tells: log.jsonl and loss.svg in its folder, and the screen.
// Where it is not compiled separately it includes nlohmann/json, and gradus.hpp does not include it.

#include <cstddef>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <limits>
#include <memory>
#include <string>
#include <string_view>

#include "../core/config.hpp"
#include "../core/error.hpp"
#include "curve_svg.hpp"
#include "progress.hpp"
#include "run_log.hpp"
#include "tensorboard.hpp"

namespace gradus {

/// One step, as it is shown and logged.
struct step_report {
  long long step = 0;
  double fraction = 0;  ///< of the run
  double loss = 0;
  double validation = std::numeric_limits<double>::quiet_NaN();  ///< where it was measured after this step
  double lr = 0;
  double tokens = 0;
  double elapsed = 0;            ///< seconds
  double tokens_per_second = 0;  ///< over all training steps so far
  double flops = 0;              ///< FLOP/s, alike; 0: not counted
};

/// What a reporter calls things.
struct reporter_names {
  std::string program;         ///< what warnings begin with
  std::string title;           ///< of the curves
  std::string unit = "token";  ///< that losses are of, and that are counted
  double machine_flops = 0;    ///< FLOP/s of matrix products, to compare with; 0: not known
  std::string loss = {};       ///< unit of losses; empty: nats a `unit`
  std::string best = {};       ///< file that keeps the model of the lowest validation loss; empty: none
};

/// Keeps the run folder up to date and tells the person in front of it. A log or a picture that cannot be written is
/// one warning, and the run goes on.
class run_reporter {
 public:
  /// Appends to the log and the curves of a run that took `steps`; what they hold of later steps is dropped. Throws
  /// gradus::error where the log cannot be opened. Of a disk that is full it warns, and a later resumption drops those
  /// steps.
  run_reporter(std::filesystem::path folder, reporter_names names, long long steps = 0);
  ~run_reporter();

  void line(std::string_view text) { progress_.line(text); }
  /// From now on, each step's numbers go to an event file for TensorBoard in the folder, too; they continue a run that
  /// took `steps`.
  void write_events(long long steps = 0);
  /// Something that went wrong and does not end the run.
  void warn(std::string_view text);
  /// Calls `write`; where it throws gradus::error, that is a warning, and the run goes on. Gives whether it was
  /// written.
  template <class F>
  bool attempt(const F& write) {
    bool failed = false;
    return attempt(failed, write);
  }
  /// The same for what is tried again and again: `failed` says whether it failed the last time, and only the first of
  /// several failures is a warning.
  template <class F>
  bool attempt(bool& failed, const F& write) {
    try {
      write();
      failed = false;
    } catch (const error& e) { note_failure(failed, e); }
    return !failed;
  }
  /// Writes a line to the log, or warns that it cannot.
  void log(std::initializer_list<log_field> fields);
  /// Logs a step and shows it.
  void step(const step_report& r) {
    record(r);
    show(r);
  }
  /// Holds a step whose loss may still be on its way from a device; `loss` waits for it and returns it. The step is
  /// logged by record_held() and shown by show_held(), which call `loss` once; what it throws, they throw. Holding a
  /// step again replaces it, for when it was validated.
  void hold(const step_report& r, std::function<double()> loss);
  /// Logs the held step, if there is one and it was not logged.
  void record_held();
  /// Logs and shows the held step, if there is one.
  void show_held();
  /// Loss of the last step that was held, or NaN. Waits for it.
  double held_loss();
  /// Logs a step, and once more where more is known of it. The log of a resumed run keeps what was said last.
  void record(const step_report& r);
  /// Shows a step, and draws the curves anew, where it was validated. Says so where the validation loss has been rising
  /// while the training loss fell (see find_overfitting), once for each lowest loss.
  void show(const step_report& r);

 private:
  void note_failure(bool& failed, const error& e);
  void check_log() const;
  void read_log(long long steps);
  static void add_point(curve& c, long long step, double y);
  static curve thinned(const curve& c, std::size_t most);
  void draw() const;
  void write_event(const step_report& r);
  void tell_of_overfitting();
  /// What fits into so many columns; log.jsonl has all of it.
  std::string figures(const step_report& r, std::size_t columns) const;

  std::filesystem::path folder_;
  reporter_names names_;
  bool log_failed_ = false;
  curve train_{"train", "#1f77b4", {}, {}};
  curve validation_{"validation", "#d62728", {}, {}};
  progress progress_;
  run_log log_;
  std::unique_ptr<tensorboard_writer> events_;
  step_report held_{.loss = std::numeric_limits<double>::quiet_NaN()};
  std::function<double()> read_loss_;  // of the held step; empty once it was read
  enum { nothing, held, recorded } held_is_ = nothing;
  bool picture_failed_ = false, events_failed_ = false;
  double told_of_ = -1;  // the lowest validation loss's step, of which overfitting was told
};

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "run_reporter.ipp"
#endif
