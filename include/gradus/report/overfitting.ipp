#pragma once
#include <algorithm>
#include <cmath>

#include "overfitting.hpp"

namespace gradus {

GRADUS_IMPL std::optional<overfitting> find_overfitting(const std::vector<double>& train_steps,
                                                        const std::vector<double>& train,
                                                        const std::vector<double>& validation_steps,
                                                        const std::vector<double>& validation,
                                                        std::size_t evaluations) {
  if (evaluations == 0 || validation.size() <= evaluations) return {};
  const auto lowest = std::ranges::min_element(validation, [](double a, double b) { return a < b; });
  const auto at = static_cast<std::size_t>(lowest - validation.begin());
  if (at + evaluations >= validation.size() || !std::isfinite(*lowest)) return {};
  const std::size_t first = validation.size() - evaluations;
  if (!(validation.back() > *lowest && validation.back() >= validation[first])) return {};
  const auto up_to = [&](double step) {
    return static_cast<std::ptrdiff_t>(std::ranges::upper_bound(train_steps, step) - train_steps.begin());
  };
  const auto mean = [&](std::ptrdiff_t begin, std::ptrdiff_t end) {
    double sum = 0;
    for (auto i = begin; i < end; ++i) sum += train[static_cast<std::size_t>(i)];
    return sum / static_cast<double>(end - begin);
  };
  const std::ptrdiff_t best = up_to(validation_steps[at]), end = up_to(validation_steps.back());
  const std::ptrdiff_t count = std::min(best, end - up_to(validation_steps[first]));
  if (count <= 0 || !(mean(end - count, end) < mean(best - count, best))) return {};
  return overfitting{validation_steps[at], *lowest, validation.back()};
}

}  // namespace gradus
