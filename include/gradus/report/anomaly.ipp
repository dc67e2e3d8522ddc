#pragma once
#include <cmath>
#include <string>

#include "anomaly.hpp"

namespace gradus {

GRADUS_IMPL void anomaly_finder::computed(const activity& what, const computed_values& values) {
  if (values.operand > 0 && !gradients_) return;
  for (std::size_t i = 0; i < values.count; ++i)
    if (const double value = values.at(i); !std::isfinite(value)) fail(what, values, i, value);
}

GRADUS_IMPL void anomaly_finder::fail(const activity& what, const computed_values& values, std::size_t i,
                                      double value) const {
  std::string text = "anomaly: ";
  if (step > 0) text.append("at step ").append(std::to_string(step)).append(", ");
  text.append(what.name).append(" (").append(phase_name(what.phase)).append(") is the first to compute ");
  text.append(std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf").append(": element ").append(std::to_string(i));
  text.append(" of ").append(std::to_string(values.count)).append(" of its ");
  if (values.operand == 0) text += "result";
  else text.append("gradient for operand ").append(std::to_string(values.operand));
  throw found(text);
}

}  // namespace gradus
