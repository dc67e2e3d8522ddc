#pragma once
// The run folder: log.jsonl, loss.svg, model.safetensors; and what is shown while training.

#include <filesystem>
#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <gradus/train/curve_svg.hpp>
#include <gradus/train/progress.hpp>
#include <gradus/train/run_log.hpp>

#include "config.hpp"

namespace gpt {

/// The folder of a run, made if need be. One that holds something is refused, so that no run overwrites another.
std::filesystem::path make_run_folder(const std::string& asked);

/// Writes the flags that repeat a run into its folder, one word a line.
void write_flags(const std::filesystem::path& folder, const std::vector<std::string>& flags);

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
  double flops = 0;              ///< FLOP/s, alike
};

/// Keeps the run folder up to date and tells the person in front of it.
class reporter {
 public:
  /// Goes on with the log and the curves of a run that took `steps`; what they hold of later steps is dropped.
  reporter(std::filesystem::path folder, double machine_flops, long long steps = 0);

  void line(std::string_view text) { progress_.line(text); }
  /// Something that went wrong and does not end the run.
  void warn(std::string_view text);
  /// Writes a line to the log, or warns that it cannot.
  void log(std::initializer_list<gr::log_field> fields);
  void step(const step_report& r);

 private:
  void read_log(long long steps);
  template <class F>
  void attempt(bool& failed, const F& write);
  void draw() const;
  std::string figures(const step_report& r) const;

  std::filesystem::path folder_;
  gr::curve train_{"train", "#1f77b4", {}, {}};
  gr::curve validation_{"validation", "#d62728", {}, {}};
  gr::run_log log_;
  gr::progress progress_;
  double machine_flops_;
  bool log_failed_ = false, picture_failed_ = false;
};

}  // namespace gpt
