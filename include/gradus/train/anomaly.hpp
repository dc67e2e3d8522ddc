#pragma once
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>

#include "../core/error.hpp"
#include "../memory/activity.hpp"

namespace gradus {

/// Finds the first operation, forward or backward, that computes something that is not finite, and ends the step there: `ctx.observe(&finder)`. It
/// reads every result, and every gradient that an operation contributed to; a context that it does not observe pays nothing. On the CPU.
class anomaly_finder final : public observer {
 public:
  /// Without `gradients` only forward is looked at: loss scaling of f16 lets gradients overflow on purpose.
  explicit anomaly_finder(bool gradients = true) : gradients_(gradients) {}
  /// The step that the message names, from 1; 0: none.
  std::size_t step = 0;

  void begin(const activity&) override {}
  void end(const activity&) override {}
  /// Throws gradus::error, which names the operation, the phase and the element.
  void computed(const activity& what, const computed_values& values) override {
    if (values.operand > 0 && !gradients_) return;
    for (std::size_t i = 0; i < values.count; ++i)
      if (const double value = values.at(i); !std::isfinite(value)) fail(what, values, i, value);
  }

 private:
  [[noreturn]] void fail(const activity& what, const computed_values& values, std::size_t i, double value) const {
    std::string text = "anomaly: ";
    if (step > 0) text.append("at step ").append(std::to_string(step)).append(", ");
    text.append(what.name).append(" (").append(phase_name(what.phase)).append(") is the first to compute ");
    text.append(std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf").append(": element ").append(std::to_string(i));
    text.append(" of ").append(std::to_string(values.count)).append(" of its ");
    if (values.operand == 0) text += "result";
    else text.append("gradient for operand ").append(std::to_string(values.operand));
    throw error(text);
  }

  bool gradients_;
};

}  // namespace gradus
