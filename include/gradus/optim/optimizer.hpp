#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "../core/config.hpp"
#include "../tensor/creation.hpp"
#include "loss_scaler.hpp"
#include "param_list.hpp"
#include "step_inputs.hpp"

namespace gradus {

/// The norm that clip() measured. It is on the device, and reading it waits for the device; who does not read it does
/// not wait.
template <class D>
class gradient_norm {
 public:
  constexpr explicit gradient_norm(buffer<D> scalars) : scalars_(std::move(scalars)) {}
  constexpr operator double() const { return value(); }
  constexpr double value() const {
    if constexpr (!D::computes) return 0;
    else {
      gradient_scalars host;
      device_access<D>::download(scalars_.owner(), &host, scalars_.data(), sizeof host);
      return host.norm;
    }
  }

 private:
  buffer<D> scalars_;
};

/// What all optimizers share: the parameters, what is made of gradients before a step, and the end of a step. A step
/// uses the gradients accumulated since the last one and then forgets them.
///
/// Whatever is asked of the gradients of a step (scale_gradients, unscale, clip, clip_value) is done within the step,
/// on the way from memory; clip and unscale look at all gradients once, before it.
template <class T, class D, class G = T>
class optimizer {
 public:
  using state_type = compute_type<T>;

  /// Scales the gradients of the next step so that their joint Euclidean norm is at most `max_norm`, and returns the
  /// norm before that: coefficient min(1, max_norm / (norm + 1e-6)), as PyTorch's clip_grad_norm_. What was asked for
  /// earlier counts: factors, clip_value and an earlier clip. The norm stays on the device until somebody reads it.
  /// What `ctx` gives is kept until the step.
  GRADUS_OF_BUILD constexpr gradient_norm<D> clip(context<D>& ctx, double max_norm) {
    if (!(max_norm >= 0)) throw error("optimizer.clip(ctx, max_norm): max_norm must be 0 or more");
    look_at_gradients(ctx, max_norm);
    return gradient_norm<D>(scalars_);
  }
  /// Holds each element of the next step's gradients between -limit and limit, as PyTorch's clip_grad_value_, after the
  /// factors that were asked for until now. Once a step, and before clip(). Throws error otherwise, or if the limit is
  /// not above 0.
  constexpr void clip_value(double limit) {
    if (!(limit > 0)) throw error("optimizer.clip_value(limit): the limit must be above 0");
    if (scalars_ || limited())
      throw error("optimizer.clip_value(limit): call it once a step, and before clip(ctx, max_norm)");
    limit_ = limit;
  }
  /// Multiplies the gradients of the next step, for instance by one over the number of accumulated batches.
  constexpr void scale_gradients(double factor) { (limited() ? after_ : before_) *= factor; }
  /// Says that the gradients of the next step come from a loss that was multiplied by the scaler's scale: they are
  /// divided by it, and where one is infinite or NaN, the step changes nothing. Before clip and clip_value. The scaler
  /// must live until the step.
  constexpr void unscale(const loss_scaler<D>& scaler) {
    if (scalars_ || limited() || scaler_ != nullptr)
      throw error("optimizer.unscale(scaler): call it once a step, and before clip and clip_value");
    scaler_ = &scaler;
  }
  /// Forgets the gradients accumulated so far, and what was asked for the next step: what to do with a step that is not
  /// to be taken.
  constexpr void clear_gradients() {
    params_.clear_gradients();
    scaler_ = nullptr;
    scalars_ = {};
    before_ = after_ = 1;
    limit_ = std::numeric_limits<double>::infinity();
  }
  constexpr const param_list<T, D, G>& parameters() const { return params_; }
  /// Steps taken. Where losses are scaled, this waits for the device, which knows how many were skipped.
  constexpr std::size_t steps() const { return calls_ - skipped(); }
  /// Steps skipped because a scaled loss overflowed; waits for the device.
  constexpr std::size_t skipped() const {
    double count = 0;
    if constexpr (D::computes)
      if (skipped_) count = item(skipped_);
    return static_cast<std::size_t>(count);
  }
  /// Calls of step so far, also where it was skipped.
  constexpr const std::size_t& calls() const { return calls_; }
  /// Goes on as after `n` calls of step more, which somebody else made: a graph that was launched again. The parameters
  /// have changed.
  constexpr void advance(std::size_t n) {
    calls_ += n;
    params_.note_change();
  }
  /// Steps that each parameter took, in the model's order: those in which it had a gradient. Bias corrections and the
  /// like count these, as PyTorch's do. Waits for the device.
  std::vector<std::size_t> steps_by_parameter() const {
    std::vector<std::size_t> all(params_.all().size(), steps());
    if constexpr (D::computes)
      if (missed_) {
        std::vector<double> missed(all.size());
        device_access<D>::download(missed_.owner(), missed.data(), missed_.data(), missed_.bytes());
        for (std::size_t i = 0; i < all.size(); ++i) all[i] -= static_cast<std::size_t>(missed[i]);
      }
    return all;
  }
  /// Goes on from a step of an earlier run, all of whose steps each parameter took.
  constexpr void set_steps(std::size_t taken) {
    calls_ = taken + skipped();
    if constexpr (D::computes)
      if (missed_) device_access<D>::zero(missed_.owner(), missed_.data(), missed_.bytes());
  }
  /// The same where parameters took fewer: as many as `by_parameter` says, which is what steps_by_parameter() gave.
  /// What they missed is kept in `ctx`. Throws error unless there is a count for each parameter, at most `taken`.
  void set_steps(context<D>& ctx, std::size_t taken, const std::vector<std::size_t>& by_parameter) {
    if (by_parameter.size() != params_.all().size())
      throw error("optimizer.set_steps(ctx, taken, by_parameter): by_parameter must have one count for each parameter");
    std::vector<double> missed;
    bool some = false;
    for (const std::size_t own : by_parameter) {
      if (own > taken)
        throw error(
            "optimizer.set_steps(ctx, taken, by_parameter): no parameter can have taken more than `taken` steps");
      missed.push_back(static_cast<double>(taken - own));
      some = some || own < taken;
    }
    set_steps(taken);
    if (!some) return;
    double* const to = state<double>(ctx, missed_, missed.size());
    if constexpr (D::computes) device_access<D>::upload(ctx, to, missed.data(), missed_.bytes());
  }

  /// Rounds values to nearest (the default), or stochastically, which keeps updates that are below half of the last
  /// place of bf16 in the mean. A draw depends on the seed, the step and the element alone.
  template <class Stored = T>
  constexpr void set_rounding(rounding how, std::uint64_t seed = 0) {
    static_assert(std::is_same_v<Stored, bf16>, "optimizer.set_rounding(how): the parameters must be stored in bf16");
    rounding_ = how;
    rounding_seed_ = seed;
  }

 protected:
  template <class Model>
  constexpr explicit optimizer(Model& model) : params_(model) {}
  template <class Model, class Settings>
  constexpr optimizer(Model& model, const Settings& settings_of) : params_(model, settings_of) {}

  /// A state of n elements, zeroed, made in the first step. Returns where they are.
  template <class S>
  static constexpr S* state(context<D>& ctx, buffer<D>& b, index_t n) {
    if (!b) {
      buffer<D> made(ctx, n * sizeof(S), category::optimizer_state);
      if constexpr (D::computes) device_access<D>::zero(ctx, made.data(), made.bytes());
      b = std::move(made);
    }
    if constexpr (!D::computes) return nullptr;
    else return static_cast<S*>(b.data());
  }
  /// What must be there before a step's kernel runs.
  constexpr void prepare(context<D>& ctx) {
    absent_.clear();
    for (const auto& e : params_.all())
      if (!e.param->has_gradient()) absent_.push_back(static_cast<std::uint32_t>(e.number));
    if (D::replays_steps || !absent_.empty()) state<double>(ctx, missed_, params_.all().size());
    if (scaler_ == nullptr) return;
    if (!scalars_) look_at_gradients(ctx, std::numeric_limits<double>::infinity());
    if (!skipped_) skipped_ = zeros<double, shape<>>(ctx, category::optimizer_state);
  }
  step_inputs inputs() const {
    return {static_cast<double>(calls_),
            skipped_ ? skipped_.data() : nullptr,
            before_,
            after_,
            limit_,
            scalars(),
            rounding_,
            {rounding_seed_, static_cast<std::uint32_t>(calls_), 0, random_domain::rounding},
            &calls_};
  }
  /// On the device, how many steps each parameter missed; null: none missed any.
  const double* missed() const { return missed_ ? static_cast<const double*>(missed_.data()) : nullptr; }
  /// Counts the step, and forgets the gradients.
  constexpr void finish(context<D>& ctx) {
    if constexpr (D::computes) {
      if (!absent_.empty())
        kernel<op::note_missed, D>::forward(ctx, scalars(), static_cast<double*>(missed_.data()), absent_);
      if (scaler_ != nullptr) kernel<op::note_skip, D>::forward(ctx, scalars(), skipped_.data(), scaler_->counts());
    }
    ++calls_;
    clear_gradients();
  }

  param_list<T, D, G> params_;

 private:
  constexpr bool limited() const { return limit_ < std::numeric_limits<double>::infinity(); }
  gradient_scalars* scalars() const { return scalars_ ? static_cast<gradient_scalars*>(scalars_.data()) : nullptr; }

  // Measures norm and finiteness of the gradients, and takes over what was asked for until now.
  GRADUS_OF_BUILD constexpr void look_at_gradients(context<D>& ctx, double max_norm) {
    const index_t n = params_.total_size();
    const typename context<D>::running now(
        ctx, activity{"clip", phase::update, {5 * n, n * sizeof(G), sizeof(gradient_scalars)}});
    const bool again = static_cast<bool>(scalars_);
    buffer<D> found = scalars_;
    if (!again) found = buffer<D>(ctx, sizeof(gradient_scalars), category::temporary);
    auto partial = empty<double, op::gradient_pass::partial_sums>(ctx, category::temporary);
    scalars_ = std::move(found);
    if constexpr (D::computes) {
      const float* scale = scaler_ == nullptr ? nullptr : std::as_const(scaler_->value()).data();
      kernel<op::gradient_pass, D>::forward(ctx, op::gradient_pass{before_, after_, limit_, max_norm, scale, again},
                                            scalars(), partial.view(), params_.gradient_spans());
    }
    before_ = after_ = 1;
  }

  double before_ = 1, after_ = 1;
  double limit_ = std::numeric_limits<double>::infinity();
  std::size_t calls_ = 0;
  const loss_scaler<D>* scaler_ = nullptr;
  buffer<D> scalars_;
  tensor<double, shape<>, D> skipped_;
  buffer<D> missed_;  // made when a parameter misses a step first; where steps are replayed, in the first
  std::vector<std::uint32_t> absent_;  // numbers of the parameters without a gradient in this step
  rounding rounding_ = rounding::nearest;
  std::uint64_t rounding_seed_ = 0;
};

}  // namespace gradus
