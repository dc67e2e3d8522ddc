#pragma once
#include <cstddef>
#include <optional>
#include <vector>

#include "../core/config.hpp"

namespace gradus {

/// A validation loss that rises while the training loss falls.
struct overfitting {
  double step = 0;    ///< at which the validation loss was lowest
  double lowest = 0;  ///< there
  double now = 0;     ///< last measured
};

/// Looks for overfitting: the last `evaluations` validation losses are all above the lowest, the last of them is above
/// the first, and the mean training loss since that one is below the mean of as many steps up to the lowest. Steps are
/// ascending.
std::optional<overfitting> find_overfitting(const std::vector<double>& train_steps, const std::vector<double>& train,
                                            const std::vector<double>& validation_steps,
                                            const std::vector<double>& validation, std::size_t evaluations = 3);

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "overfitting.ipp"
#endif
