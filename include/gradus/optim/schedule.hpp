#pragma once
#include <cmath>

namespace gradus {

/// Learning rate over steps: a linear warm-up to `peak` over `warmup` steps, then half a cosine down to `low` at `total`.
struct warmup_cosine {
  double peak = 1e-3;
  double low = 1e-4;
  double warmup = 100;  ///< steps
  double total = 1000;  ///< steps

  /// Rate for step `step`, counted from 0.
  double operator()(double step) const {
    if (step < warmup) return peak * (step + 1) / warmup;
    if (step >= total) return low;
    const double progress = (step - warmup) / (total - warmup);
    return low + 0.5 * (1 + std::cos(3.14159265358979323846 * progress)) * (peak - low);
  }
};

}  // namespace gradus
