#pragma once
// Reports a run: log.jsonl and loss.svg in its folder, and the screen.
// Unless it is compiled separately it includes nlohmann/json, so gradus.hpp does not include it.

#include <cstddef>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "../core/config.hpp"
#include "../core/error.hpp"
#include "../report/curve_svg.hpp"
#include "../report/progress.hpp"
#include "../report/run_log.hpp"
#include "../report/tensorboard.hpp"

namespace gradus {

/// What a step computed.
struct step_figures {
  double loss = 0;
  double norm = std::numeric_limits<double>::quiet_NaN();  ///< of the gradients, before they were clipped; NaN: unknown
};

/// The figures of one step.
struct step_report {
  long long step = 0;
  double fraction = 0;  ///< of the run
  double loss = 0;
  double norm = std::numeric_limits<double>::quiet_NaN();        ///< see step_figures
  double validation = std::numeric_limits<double>::quiet_NaN();  ///< NaN: not measured after this step
  double bits_per_byte = 0;                                      ///< of the validation loss; 0: unknown
  double lr = 0;
  double tokens = 0;
  double elapsed = 0;                  ///< seconds
  double tokens_per_second = 0;        ///< over all steps so far
  double flops = 0;                    ///< FLOP/s over all steps; 0: unknown
  std::vector<log_field> fields = {};  ///< of the log's line, if the step was validated, besides these
  std::string note = {};               ///< a line on the screen behind the step's, if it was validated
};

/// Names and units in the reports.
struct reporter_names {
  std::string program = {};    ///< begins warnings
  std::string title = {};      ///< of the curves
  std::string unit = "token";  ///< of losses and counts
  double machine_flops = 0;    ///< FLOP/s of matrix products, for comparison; 0: unknown
  std::string loss = {};       ///< unit of losses; empty: nats a `unit`
  std::string best = {};       ///< file of the model with the lowest validation loss; empty: none
};

/// Writes the log and the curves of a run folder and shows the run on the screen. A file that cannot be written is one
/// warning, and the run continues.
class run_reporter {
 public:
  /// Continues the log and the curves of a run that took `steps`, and drops later steps from them. Throws gradus::error
  /// if the log cannot be opened. On a full disk it warns, and the next resumed run drops them.
  run_reporter(std::filesystem::path folder, reporter_names names, long long steps = 0);
  ~run_reporter();

  void line(std::string_view text) { progress_.line(text); }
  /// Also writes each later step to an event file for TensorBoard; it continues a run that took `steps`.
  void write_events(long long steps = 0);
  /// Prints a warning to stderr.
  void warn(std::string_view text);
  /// Calls `write` and returns true; if it throws gradus::error, warns and returns false.
  template <class F>
  bool attempt(const F& write) {
    bool failed = false;
    return attempt(failed, write);
  }
  /// Calls `write` and returns true; if it throws gradus::error, returns false, and warns unless the attempt before,
  /// noted in `failed`, has failed, too.
  template <class F>
  bool attempt(bool& failed, const F& write) {
    try {
      write();
      failed = false;
    } catch (const error& e) { note_failure(failed, e); }
    return !failed;
  }
  /// Writes a line to the log, or warns that it cannot.
  void log(const std::vector<log_field>& fields);
  /// Logs a step and shows it.
  void step(const step_report& r) {
    record(r);
    show(r);
  }
  /// Holds a step whose figures may not have arrived from the device: `figures` waits for them. record_held() and
  /// show_held() call `figures` once, and throw what it throws. To add the validation loss, hold the step again.
  void hold(const step_report& r, std::function<step_figures()> figures);
  /// Logs the held step, if there is one and it was not logged.
  void record_held();
  /// Logs and shows the held step, if there is one.
  void show_held();
  /// Loss of the last step that was held, or NaN. Waits for it.
  double held_loss();
  /// Logs a step. Log it again once its validation loss is known: a resumed run keeps the last line of a step.
  void record(const step_report& r);
  /// Shows a step, with the exponential moving average (factor 0.9) of the last losses; if it was validated, draws the
  /// curves, and warns of overfitting (see find_overfitting), once for each lowest loss.
  void show(const step_report& r);

 private:
  void note_failure(bool& failed, const error& e);
  void check_log() const;
  void read_log(long long steps);
  static void add_point(curve& c, long long step, double y);
  static curve thinned(const curve& c, std::size_t most);
  /// The exponential moving average (factor 0.9) of the last 100 values of a curve.
  static double smoothed(const curve& c);
  void draw() const;
  void write_event(const step_report& r);
  void report_overfitting();
  /// The figures that fit into `columns`.
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
  std::function<step_figures()> read_figures_;  // of the held step; empty once they were read
  enum { nothing, held, recorded } held_is_ = nothing;
  bool picture_failed_ = false, events_failed_ = false;
  double reported_overfitting_ = -1;  // step of the lowest validation loss at the last warning
};

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "run_reporter.ipp"
#endif
