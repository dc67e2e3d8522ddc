#pragma once
// Learning rates over steps. A schedule is a struct of settings that is called with a step, counted from 0.

#include <algorithm>
#include <cmath>

namespace gradus {

namespace detail {
// The part of what comes after `begin` that is over at `step`, from 0 to 1.
inline double share_of(double step, double begin, double end) {
  return step >= end ? 1.0 : std::max(0.0, (step - begin) / (end - begin));
}
}  // namespace detail

/// A linear warm-up to `peak` over `warmup` steps, then `peak`.
struct warmup_constant {
  double peak = 1e-3;
  double warmup = 100;  ///< steps

  double operator()(double step) const { return step < warmup ? peak * (step + 1) / warmup : peak; }
};

/// A linear warm-up to `peak` over `warmup` steps, then a straight line down to `low` at `total`.
struct warmup_linear {
  double peak = 1e-3;
  double low = 0;
  double warmup = 100;  ///< steps
  double total = 1000;  ///< steps

  double operator()(double step) const {
    if (step < warmup) return peak * (step + 1) / warmup;
    return peak + detail::share_of(step, warmup, total) * (low - peak);
  }
};

/// A linear warm-up to `peak` over `warmup` steps, then half a cosine down to `low` at `total`.
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
/// `peak` until the last part of the run, `decay` of its steps, which goes down to `low` by 1 - sqrt. A run may be
/// prolonged from where its decay began.
struct warmup_stable_decay {
  double peak = 1e-3;
  double low = 0;
  double warmup = 100;  ///< steps
  double total = 1000;  ///< steps
  double decay = 0.2;   ///< share of `total`

  double operator()(double step) const {
    if (step < warmup) return peak * (step + 1) / warmup;
    const double over = detail::share_of(step, (1 - decay) * total, total);
    return low + (1 - std::sqrt(over)) * (peak - low);
  }
};

}  // namespace gradus
