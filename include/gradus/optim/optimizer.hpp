#pragma once
// Base of all optimizers: the parameter list, gradient preprocessing (unscale, clip), step bookkeeping.
//
// Requests before a step are recorded, and the step's kernel applies them as it reads each gradient. What a call does
// depends on the requests since the last step, and step() and clear_gradients() drop them:
//
//   requested so far  scale_gradients(f)  unscale(s)    clip_value(l)    clip(ctx, n)
//   nothing           multiplies by f     divides by s  limits elements  measures the norm and limits it to n
//   unscale           multiplies by f     throws        limits elements  measures and limits the unscaled gradients
//   clip_value        multiplies by f,    throws        throws           measures and limits the limited elements
//                     after the limit
//   clip              multiplies by f     throws        throws           measures and limits the clipped gradients
//
// A step after unscale but not clip searches the gradients for infinities and NaN itself. A step that finds one changes
// nothing.

#include <algorithm>
#include <cmath>
#include <concepts>
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
#include "update_parts.hpp"

namespace gradus {

/// The norm that clip() measured, on the device.
template <class D>
class gradient_norm {
 public:
  constexpr explicit gradient_norm(buffer<D> scalars) : scalars_(std::move(scalars)) {}
  /// Waits for the device and reads the norm.
  constexpr double value() const {
    if constexpr (!D::computes) return 0;
    else {
      gradient_scalars host;
      device_access<D>::download(scalars_.owner(), &host, scalars_.data(), sizeof host);
      return host.norm;
    }
  }
  /// Submits the copy of the norm into `to`, which may be on its way to the host when later steps run.
  constexpr void copy_to([[maybe_unused]] context<D>& ctx, [[maybe_unused]] tensor<double, shape<>, D>& to) const {
    if constexpr (D::computes)
      device_access<D>::copy(ctx, to.data(),
                             static_cast<const std::byte*>(scalars_.data()) + offsetof(gradient_scalars, norm),
                             sizeof(double));
  }

 private:
  buffer<D> scalars_;
};

/// Base of all optimizers: the parameter list, gradient preprocessing (unscale, clip), step bookkeeping. A step uses
/// the gradients accumulated since the last step and frees them. The table above says what each call does when.
template <class T, class D, class G = T>
class optimizer {
 public:
  using state_type = compute_type<T>;
  /// Whether a step of one element depends on others of its parameter, so that ranks cannot divide a parameter.
  static constexpr bool needs_whole_parameters = false;

  /// Measures the joint Euclidean norm of the gradients and returns it. The next step multiplies the gradients by
  /// min(1, max_norm / (norm + 1e-6)), as PyTorch's clip_grad_norm_. Earlier requests (factors, clip_value, an earlier
  /// clip) apply first. The optimizer keeps a few bytes of `ctx` until the step: give it the context of the tape,
  /// so that a plan has them. Throws error unless max_norm >= 0.
  GRADUS_OF_BUILD constexpr gradient_norm<D> clip(context<D>& ctx, double max_norm) {
    if (!(max_norm >= 0)) throw error("optimizer.clip(ctx, max_norm): max_norm must be 0 or more");
    measure_gradients(ctx, max_norm);
    return gradient_norm<D>(scalars_);
  }
  /// Limits each element of the next step's gradients to -limit .. limit, as PyTorch's clip_grad_value_. Earlier
  /// factors apply before the limit, later ones after it. Throws error unless limit > 0, and where the table says so.
  constexpr void clip_value(double limit) {
    if (!(limit > 0)) throw error("optimizer.clip_value(limit): the limit must be above 0");
    if (scalars_ || limited())
      throw error("optimizer.clip_value(limit): call it once a step, and before clip(ctx, max_norm)");
    limit_ = limit;
  }
  /// Multiplies the gradients of the next step, for instance by one over the number of accumulated batches.
  constexpr void scale_gradients(double factor) { (limited() ? after_ : before_) *= factor; }
  /// Divides the gradients of the next step by the scaler's scale, which multiplied the loss. If a gradient is infinite
  /// or NaN, the step changes nothing. The scaler must live until the step, and its update comes after that: the step
  /// throws error if not. Throws error where the table says so.
  constexpr void unscale(const loss_scaler<D>& scaler) {
    if (scalars_ || limited() || scaler_ != nullptr)
      throw error("optimizer.unscale(scaler): call it once a step, and before clip and clip_value");
    scaler_ = &scaler;
    scale_changes_ = scaler.changes();
  }
  /// Takes the norm and the overflow flag of all ranks' gradients, where the ranks' optimizers are made of param_pieces
  /// that together are the model: clip, and a step that unscales, are then collectives. The communicator must outlive
  /// the optimizer. The norm has the same bits however the pieces are cut.
  template <class Communicator>
    requires requires(Communicator& ranks, context<D>& ctx, double* numbers) { ranks.add_up(ctx, numbers, index_t{}); }
  constexpr void share_norm(Communicator& ranks) {
    ranks_ = &ranks;
    add_up_over_ranks_ = [](void* to, context<D>& ctx, double* numbers, index_t n) {
      static_cast<Communicator*>(to)->add_up(ctx, numbers, n);
    };
  }
  /// Frees the accumulated gradients and drops the requests for the next step.
  constexpr void clear_gradients() {
    params_.clear_gradients();
    scaler_ = nullptr;
    scalars_ = {};
    before_ = after_ = 1;
    limit_ = std::numeric_limits<double>::infinity();
  }
  constexpr const param_list<T, D, G>& parameters() const { return params_; }
  /// Steps taken. With a scaled loss this waits for the device, which counts the skipped ones.
  constexpr std::size_t steps() const { return calls_ - skipped(); }
  /// Steps skipped because a scaled loss overflowed; waits for the device.
  constexpr std::size_t skipped() const {
    double count = 0;
    if constexpr (D::computes)
      if (skipped_) count = item(skipped_);
    return static_cast<std::size_t>(count);
  }
  /// Calls of step(), skipped steps included.
  constexpr const std::size_t& calls() const { return calls_; }
  /// Counts `n` steps that a launched graph took, and marks the parameters as changed.
  constexpr void advance(std::size_t n) {
    calls_ += n;
    params_.mark_changed();
  }
  /// Steps that each parameter of the model took, in its order: those in which it had a gradient. Bias corrections
  /// count these, as PyTorch's do. Waits for the device.
  std::vector<std::size_t> steps_by_parameter() const {
    std::vector<std::size_t> all(params_.wholes().size(), steps());
    if constexpr (D::computes)
      if (missed_) {
        std::vector<double> missed(all.size());
        device_access<D>::download(missed_.owner(), missed.data(), missed_.data(), missed_.bytes());
        for (std::size_t i = 0; i < all.size(); ++i) all[i] -= static_cast<std::size_t>(missed[i]);
      }
    return all;
  }
  /// Sets the number of steps taken, by every parameter: where an earlier run stopped.
  constexpr void set_steps(std::size_t taken) {
    calls_ = taken + skipped();
    if constexpr (D::computes)
      if (missed_) device_access<D>::zero(missed_.owner(), missed_.data(), missed_.bytes());
  }
  /// Sets the number of steps taken, and how many of them each parameter took, as steps_by_parameter() gave them. The
  /// counts lie in memory of `ctx`. Throws error unless there is a count for each parameter, at most `taken`.
  void set_steps(context<D>& ctx, std::size_t taken, const std::vector<std::size_t>& by_parameter) {
    if (by_parameter.size() != params_.wholes().size())
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
    double* const to = make_state<double>(ctx, missed_, missed.size());
    if constexpr (D::computes) device_access<D>::upload(ctx, to, missed.data(), missed_.bytes());
  }

  /// Sets how values are rounded to bf16: to nearest (the default), or stochastically, which keeps the mean of updates
  /// below half of the last place. A draw depends on the seed, the step and the element alone.
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

  /// The address of a state of n elements, which the first call allocates and zeroes.
  template <class S>
  constexpr S* make_state(context<D>& ctx, buffer<D>& b, index_t n) const {
    if (!b) {
      buffer<D> made(ctx, n * sizeof(S), category::optimizer_state);
      if constexpr (D::computes) zero_state(ctx, made);
      b = std::move(made);
    }
    if constexpr (!D::computes) return nullptr;
    else return static_cast<S*>(b.data());
  }
  /// The address of n elements of scratch memory. The first step allocates it: a step that allocates nothing can be
  /// captured as a graph and launched again.
  template <class S>
  static constexpr S* scratch(context<D>& ctx, buffer<D>& b, index_t n) {
    if (!b && n > 0) b = buffer<D>(ctx, n * sizeof(S), category::temporary);
    if constexpr (!D::computes) return nullptr;
    else return n > 0 ? static_cast<S*>(b.data()) : nullptr;
  }
  /// Allocates and measures what the step's kernel reads.
  constexpr void prepare(context<D>& ctx) {
    absent_.clear();
    for (const auto& e : params_.wholes())
      if (!e.param->has_gradient()) absent_.push_back(static_cast<std::uint32_t>(e.number));
    if (D::replays_steps || !absent_.empty()) make_state<double>(ctx, missed_, params_.wholes().size());
    if (scaler_ == nullptr) return;
    if (scaler_->changes() != scale_changes_)
      throw error(
          "optimizer.step(ctx): the scaler was updated after unscale(scaler); call scaler.update(ctx) after the "
          "step");
    if (!scalars_) measure_gradients(ctx, std::numeric_limits<double>::infinity());
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
  /// Counts the step, and frees the gradients.
  constexpr void finish(context<D>& ctx) {
    if constexpr (D::computes) {
      if (!absent_.empty())
        kernel<op::count_missed, D>::forward(ctx, scalars(), static_cast<double*>(missed_.data()), absent_);
      if (scaler_ != nullptr) kernel<op::count_skipped, D>::forward(ctx, scalars(), skipped_.data(), scaler_->counts());
    }
    ++calls_;
    clear_gradients();
  }

  param_list<T, D, G> params_;
  update_parts* parts_ = nullptr;  // of steps; null: a step is not divided

 private:
  // In parts, so that a state in a file is not resident as a whole.
  void zero_state(context<D>& ctx, buffer<D>& state) const {
    const std::size_t most = parts_ == nullptr ? state.bytes() : parts_->values() * sizeof(float);
    for (std::size_t at = 0; at < state.bytes(); at += most) {
      const memory_range part{static_cast<std::byte*>(state.data()) + at, std::min(most, state.bytes() - at)};
      device_access<D>::zero(ctx, part.begin, part.bytes);
      if (parts_ != nullptr) parts_->end({&part, 1});
    }
  }
  constexpr bool limited() const { return limit_ < std::numeric_limits<double>::infinity(); }
  gradient_scalars* scalars() const { return scalars_ ? static_cast<gradient_scalars*>(scalars_.data()) : nullptr; }

  // Computes the global norm and the overflow flag, and folds the pending factors into them.
  GRADUS_OF_BUILD constexpr void measure_gradients(context<D>& ctx, double max_norm) {
    const index_t n = params_.total_size();
    const typename context<D>::running now(
        ctx, activity{"clip", phase::update, {5 * n, n * sizeof(G), sizeof(gradient_scalars)}});
    const bool second = static_cast<bool>(scalars_);
    buffer<D> found = scalars_;
    if (!second) found = buffer<D>(ctx, sizeof(gradient_scalars), category::temporary);
    const index_t units = params_.units();
    const buffer<D> memory(ctx, 2 * units * sizeof(double), category::temporary);
    scalars_ = std::move(found);
    const float* scale = nullptr;
    if constexpr (D::computes)
      if (scaler_ != nullptr) scale = std::as_const(scaler_->value()).data();
    const op::gradient_pass pass{before_, after_, limit_, max_norm, scale, second};
    double* partial = nullptr;
    if constexpr (D::computes) {
      partial = static_cast<double*>(memory.data());
      device_access<D>::zero(ctx, partial, memory.bytes());
      kernel<op::gradient_pass, D>::forward(ctx, pass, scalars(), partial, units, params_.gradient_spans());
      if constexpr (D::host_addressable)
        if (const auto& rows = params_.gradient_row_spans(); !rows.empty())
          kernel<op::gradient_pass, D>::forward(ctx, pass, scalars(), partial, units, rows);
    }
    // Exact: each partial sum is 0 on all ranks but one.
    if (ranks_ != nullptr) add_up_over_ranks_(ranks_, ctx, partial, 2 * units);
    if constexpr (D::computes) kernel<op::gradient_pass, D>::conclude(ctx, pass, scalars(), partial, units);
    before_ = after_ = 1;
  }

  double before_ = 1, after_ = 1;  // factors, before and after the limit of clip_value
  double limit_ = std::numeric_limits<double>::infinity();
  std::size_t calls_ = 0;
  const loss_scaler<D>* scaler_ = nullptr;
  std::size_t scale_changes_ = 0;  // of the scaler, at unscale
  void* ranks_ = nullptr;          // the communicator of the ranks that share the norm; optim/ does not know its type
  void (*add_up_over_ranks_)(void*, context<D>&, double*, index_t) = nullptr;
  buffer<D> scalars_;  // what measure_gradients found
  tensor<double, shape<>, D> skipped_;
  buffer<D> missed_;  // allocated when a parameter first misses a step; where steps are replayed, in the first step
  std::vector<std::uint32_t> absent_;  // numbers of the parameters without a gradient in this step
  rounding rounding_ = rounding::nearest;
  std::uint64_t rounding_seed_ = 0;
};

/// An optimizer with settings.
template <class Options, class T, class D, class G = T>
class optimizer_with : public optimizer<T, D, G> {
 public:
  Options options;  ///< may change between steps: a learning-rate schedule sets `lr`

  template <class Model>
  constexpr explicit optimizer_with(Model& model, Options o = {}) : optimizer<T, D, G>(model), options(o) {}
  /// @param settings_of param_info -> param_settings: parameters with a learning rate or weight decay of their own
  template <class Model, class Settings>
  constexpr optimizer_with(Model& model, Options o, const Settings& settings_of)
      : optimizer<T, D, G>(model, settings_of), options(o) {}
  /// Rejects a number: settings are named.
  template <class Model, std::convertible_to<double> Number, class... Settings>
  constexpr optimizer_with(Model& model, Number, const Settings&...) : optimizer_with(model) {
    static_assert(detail::settings_are_named<Number>, "optimizer(model, 1e-3): settings are named; write {.lr = 1e-3}");
  }
};

}  // namespace gradus
