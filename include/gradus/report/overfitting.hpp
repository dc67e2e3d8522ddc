#pragma once
// Detects a validation loss that rises while the training loss falls.

#include <cstddef>
#include <optional>
#include <vector>

#include "../core/config.hpp"

namespace gradus {

/// A validation loss that rises while the training loss falls.
struct overfitting {
  double step = 0;    ///< of the lowest validation loss
  double lowest = 0;  ///< validation loss
  double now = 0;     ///< last validation loss
};

/// Detects overfitting: the last `evaluations` validation losses are all above the lowest, the last of them is above
/// the first, and the mean training loss since the lowest is below the mean of as many steps before it. Steps are
/// ascending.
std::optional<overfitting> find_overfitting(const std::vector<double>& train_steps, const std::vector<double>& train,
                                            const std::vector<double>& validation_steps,
                                            const std::vector<double>& validation, std::size_t evaluations = 3);

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "overfitting.ipp"
#endif
