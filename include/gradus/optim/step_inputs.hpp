#pragma once
// The scalars that a step's kernels read. Some exist on the device only, and the host never waits for them.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "../core/config.hpp"
#include "../core/dtype.hpp"
#include "../core/extent.hpp"
#include "../core/math.hpp"
#include "../core/philox.hpp"

namespace gradus {

/// What a pass over the gradients measured, and the factors that follow from it. In the device's memory.
struct gradient_scalars {
  double before;     ///< factor of the gradients before clip_value's limit
  double after;      ///< factor after it
  double norm;       ///< global norm, before the last clip
  double found_inf;  ///< 1 if the loss was scaled and a gradient is not finite: the step is skipped
};

/// Counters of a loss scale, as in PyTorch's GradScaler. In the device's memory, beside the scale.
struct loss_scale_counts {
  std::int32_t clean_steps;  ///< since the scale last changed
  std::int32_t found_inf;    ///< 1 if a step was skipped since the last update
};

/// How a value is rounded to the type that it is stored in.
enum class rounding {
  nearest,    ///< ties to even
  stochastic  ///< up or down at random, exact in the mean (bf16 only)
};

/// Per-tensor constants of one step, passed to a rule.
struct tensor_step {
  double t;             ///< the tensor's step, from 1; skipped steps and steps without its gradient do not count
  double lr;            ///< of this tensor
  double weight_decay;  ///< of this tensor
};

/// A step of one tensor, once its update is known: value = value * decay_factor - lr * update.
struct step_rates {
  float decay_factor, lr;
};

/// Scalars of one step that all tensors share.
struct step_inputs {
  double steps = 0;                 ///< calls of step before this one
  const double* skipped = nullptr;  ///< on the device: how many were skipped; null: none
  double before = 1, after = 1;     ///< factors of the gradients, before and after the limit
  double limit = std::numeric_limits<double>::infinity();
  const gradient_scalars* scalars = nullptr;  ///< on the device: further factors; null: none
  rounding rounds = rounding::nearest;
  random_key key = {};                 ///< of the draws of stochastic rounding
  const std::size_t* calls = nullptr;  ///< on the host: the counter behind `steps` and `key`

  // For kernels: these read the device's memory.

  GRADUS_HD bool skips() const { return scalars != nullptr && scalars->found_inf != 0; }
  template <class Rule, class Span>
  GRADUS_HD tensor_step at(const Rule& rule, const Span& tensor) const {
    const double not_taken = skipped == nullptr ? 0.0 : *skipped,
                 missed = tensor.missed == nullptr ? 0.0 : *tensor.missed;
    return {steps + 1 - not_taken - missed, rule.lr * tensor.lr, rule.weight_decay * tensor.weight_decay};
  }
};

/// Scales and limits a gradient, in type C.
template <class C>
struct gradient_scaling {
  C before, limit, after;

  GRADUS_HD explicit gradient_scaling(const step_inputs& in) {
    double b = in.before, a = in.after;
    if (in.scalars != nullptr) {
      b *= in.scalars->before;
      a *= in.scalars->after;
    }
    const bool limited = in.limit < std::numeric_limits<double>::infinity();
    before = static_cast<C>(limited ? b : b * a);
    after = static_cast<C>(limited ? a : 1.0);
    limit = static_cast<C>(in.limit);
  }
  template <class V>
  GRADUS_HD V operator()(V g) const {
    using math::select;
    const V high(limit), low(-limit);
    const V scaled = g * V(before);
    return select(scaled > high, high, select(scaled < low, low, scaled)) * V(after);
  }
};

/// Rounds x to bf16, up or down at random, exact in the mean: adds 16 random bits, half number `half` (0 to 7) of the
/// words, and truncates. NaN stays NaN.
GRADUS_HD constexpr bf16 round_stochastically(float x, const std::array<std::uint32_t, 4>& words, index_t half) {
  if (!(x == x)) return bf16(x);
  const std::uint32_t draw = (words[half / 2] >> (half % 2 * 16)) & 0xFFFFu;
  return bf16::from_bits(static_cast<std::uint16_t>((std::bit_cast<std::uint32_t>(x) + draw) >> 16));
}

namespace op::inline GRADUS_BUILD {

/// Computes the global norm and the overflow flag, and from them the step's factors, into gradient_scalars. Sums are
/// made unit by unit (see param_list::units) and these added up in order, in double: ranks that have the gradients of
/// some units each find the same norm.
///
/// forward(ctx, pass, scalars, double* partial, units, spans) writes the sums of the spans' units to `partial`,
/// [2, units]: of squares, and of 0 * gradient, which is NaN unless it is finite. conclude(ctx, pass, scalars, partial,
/// units) adds them up. The caller passes the memory of partial sums, with zeros: kernels allocate nothing, so that a
/// plan made on meta holds on every device.
struct gradient_pass {
  double before = 1, after = 1;  ///< requested since the last pass
  double limit = std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();  ///< allowed norm
  const float* loss_scale = nullptr;                      ///< on the device; null: the loss was not scaled
  bool second = false;                                    ///< an earlier pass has set gradient_scalars

  /// The factor to apply before squaring; 1 if it may be applied to the norm instead.
  GRADUS_HD double early_factor(const gradient_scalars& so_far) const { return early() ? first_factor(so_far) : 1.0; }
  /// Writes the results of both sums to `to`.
  GRADUS_HD void conclude(gradient_scalars& to, double squares, double not_finite) const {
    const double b = first_factor(to), a = after * (second ? to.after : 1.0);
    const double norm = math::sqrt(squares) * math::abs(early() ? a : a * b);
    const double coefficient = most / (norm + 1e-6);
    const bool found = loss_scale != nullptr && !(not_finite == 0);
    to = {b, a * (coefficient < 1 ? coefficient : 1), norm, found ? 1.0 : 0.0};
  }

 private:
  GRADUS_HD bool early() const { return loss_scale != nullptr || limit < std::numeric_limits<double>::infinity(); }
  GRADUS_HD double first_factor(const gradient_scalars& so_far) const {
    if (second) return before * so_far.before;
    // PyTorch divides by the scale in double and rounds that to float.
    return loss_scale == nullptr ? before : before * static_cast<double>(static_cast<float>(1.0 / double{*loss_scale}));
  }
};

/// One step of a rule for one element. See element_optimizer.
struct element_step {};

/// After a step with a scaled loss: counts the step if it was skipped.
struct count_skipped {};
/// After a step in which some parameters had no gradient: counts it as missed by them, unless it was skipped.
struct count_missed {};

/// PyTorch's update of a loss scale.
struct update_loss_scale {
  double growth, backoff;
  std::int32_t interval;

  GRADUS_HD void operator()(float& scale, loss_scale_counts& counts) const {
    if (counts.found_inf != 0) {
      scale = static_cast<float>(double{scale} * backoff);
      counts.clean_steps = 0;
    } else if (counts.clean_steps + 1 == interval) {
      const auto grown = static_cast<float>(double{scale} * growth);
      if (grown <= std::numeric_limits<float>::max()) scale = grown;
      counts.clean_steps = 0;
    } else {
      counts.clean_steps += 1;
    }
    counts.found_inf = 0;
  }
};

}  // namespace op::inline GRADUS_BUILD

}  // namespace gradus
