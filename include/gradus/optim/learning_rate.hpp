#pragma once
// Learning-rate schedules: structs of settings that return the learning rate of a step, counted from 0.

#include <algorithm>
#include <cmath>

namespace gradus {

namespace detail {
// Progress from `begin` to `end` at `step`, from 0 to 1.
inline double progress(double step, double begin, double end) {
  return step >= end ? 1.0 : std::max(0.0, (step - begin) / (end - begin));
}
}  // namespace detail

/// A linear warm-up to `peak` over `warmup` steps, then `peak`.
struct warmup_constant {
  double peak = 1e-3;
  double warmup = 100;  ///< steps

  double operator()(double step) const { return step < warmup ? peak * (step + 1) / warmup : peak; }
};

/// A linear warm-up to `peak` over `warmup` steps, then a linear decay to `low` at `total`.
struct warmup_linear {
  double peak = 1e-3;
  double low = 0;
  double warmup = 100;  ///< steps
  double total = 1000;  ///< steps

  double operator()(double step) const {
    if (step < warmup) return peak * (step + 1) / warmup;
    return peak + detail::progress(step, warmup, total) * (low - peak);
  }
};

/// A linear warm-up to `peak` over `warmup` steps, then a cosine decay to `low` at `total`, and `low` from there on.
/// The schedule of this kind in transformers follows the cosine past its end: it rises again.
struct warmup_cosine {
  double peak = 1e-3;
  double low = 1e-4;
  double warmup = 100;  ///< steps
  double total = 1000;  ///< steps

  double operator()(double step) const {
    if (step < warmup) return peak * (step + 1) / warmup;
    if (step >= total) return low;
    const double progress = (step - warmup) / (total - warmup);
    return low + 0.5 * (1 + std::cos(3.14159265358979323846 * progress)) * (peak - low);
  }
};

/// Warm-up, stable, decay (Hu et al. 2024; Hägele et al. 2024): a linear warm-up to `peak` over `warmup` steps, then
/// `peak`, then over the last `decay` of the steps a decay to `low` by 1 - sqrt. A longer run may resume from the step
/// where the decay began.
struct warmup_stable_decay {
  double peak = 1e-3;
  double low = 0;
  double warmup = 100;  ///< steps
  double total = 1000;  ///< steps
  double decay = 0.2;   ///< share of `total`

  double operator()(double step) const {
    if (step < warmup) return peak * (step + 1) / warmup;
    const double progress = detail::progress(step, (1 - decay) * total, total);
    return low + (1 - std::sqrt(progress)) * (peak - low);
  }
};

}  // namespace gradus
