#pragma once
// When a step's loss is read.

#include <cmath>
#include <limits>
#include <optional>

#include <gradus/train/run_reporter.hpp>

#include "validation.hpp"

namespace gpt {

/// Reports steps in order: at once on the CPU. On a GPU a step waits until the next one was submitted, so that reading its loss keeps neither
/// the GPU nor the host waiting; one that was validated has been waited for already.
class late_report {
  struct untold {
    gr::step_report step;
    trainer::step_loss loss;
  };
  gr::run_reporter& to_;
  std::optional<untold> step_;
  double last_ = std::numeric_limits<double>::quiet_NaN();

 public:
  explicit late_report(gr::run_reporter& to) : to_(to) {}

  void hold(const gr::step_report& step, const trainer::step_loss& loss) { step_ = {step, loss}; }
  /// Reports the step that is held, if one is. Throws where its loss is not finite.
  void tell() {
    if (!step_) return;
    step_->step.loss = last_ = step_->loss.value();
    check_finite("loss", last_, step_->step.step);
    to_.step(step_->step);
    step_.reset();
  }
  void tell_unless_late() {
    if (!on_gpu || (step_ && !std::isnan(step_->step.validation))) tell();
  }
  /// Loss of the last step, reported or not.
  double loss() const { return step_ ? step_->loss.value() : last_; }
};

}  // namespace gpt
