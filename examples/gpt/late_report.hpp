#pragma once
// When a step's loss is read.

#include <cmath>
#include <limits>
#include <utility>

#include <gradus/train/run_reporter.hpp>

#include "validation.hpp"

namespace gpt {

/// Logs and shows steps in order: at once on the CPU. On a GPU a step waits until the next one was submitted, so that
/// reading its loss keeps neither the GPU nor the host waiting; one that was validated has been waited for already.
class late_report {
  gr::run_reporter& to_;
  gr::step_report step_;
  trainer::step_loss loss_;
  bool held_ = false, recorded_ = false;
  double last_ = std::numeric_limits<double>::quiet_NaN();

 public:
  explicit late_report(gr::run_reporter& to) : to_(to) {}

  void hold(const gr::step_report& step, const trainer::step_loss& loss) {
    step_ = step;
    loss_ = loss;
    held_ = true;
    recorded_ = false;
  }
  /// Logs the step that is held, if one is and it is not logged yet. Throws where its loss is not finite.
  void record() {
    if (!held_ || recorded_) return;
    step_.loss = last_ = loss_.value();
    check_finite("loss", last_, step_.step);
    recorded_ = true;
    to_.record(step_);
  }
  /// Logs and shows it.
  void tell() {
    record();
    if (std::exchange(held_, false)) to_.show(step_);
  }
  void tell_unless_late() {
    if (!on_gpu || !std::isnan(step_.validation)) tell();
  }
  /// Loss of the last step, reported or not.
  double loss() const { return held_ ? loss_.value() : last_; }
};

}  // namespace gpt
