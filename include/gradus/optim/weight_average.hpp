#pragma once
// Exponential moving averages of a model's parameters.

#include <cstddef>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "../core/config.hpp"
#include "../tensor/creation.hpp"
#include "param_list.hpp"
#include "step_inputs.hpp"

namespace gradus {

namespace op::inline GRADUS_BUILD {
/// average = decay * average + (1 - decay) * value on all spans, or average = value where decay is 0.
struct average_weights {
  double decay;
};
/// Replaces the values by the averages. The values go to `back`, or, if `back` is null, to where the averages were.
struct swap_averages {};
/// Copies `back` to the values.
struct restore_values {};
}  // namespace op::inline GRADUS_BUILD

/// Settings of weight_average.
struct weight_average_options {
  double decay = 0.999;
};

/// An exponential moving average of a model's parameters: average = decay * average + (1 - decay) * value after each
/// step, starting with the first value, as PyTorch's AveragedModel with get_ema_multi_avg_fn. State: one value a
/// parameter, in its compute type.
///
///     gr::weight_average average{net, {.decay = 0.999}};
///     optimizer.step(ctx);
///     average.update(ctx);
///     {
///       const auto guard = average.use(ctx);  // the model has the averages here
///       validate(net);
///     }
template <class T, class D, class G = T>
class weight_average {
 public:
  using state_type = compute_type<T>;
  weight_average_options options;

  template <class Model>
  constexpr explicit weight_average(Model& model, weight_average_options o = {}) : options(o), params_(model) {}

  /// Updates the averages with the parameters' values. The first call allocates them in `ctx`. Throws error while they
  /// are in use.
  GRADUS_OF_BUILD constexpr void update(context<D>& ctx) {
    check_not_in_use("update(ctx)");
    const index_t n = params_.total_size();
    const typename context<D>::running now(
        ctx,
        activity{
            "average weights", phase::update, {3 * n, n * (sizeof(T) + sizeof(state_type)), n * sizeof(state_type)}});
    const bool first = !averages_;
    if (first) averages_ = buffer<D>(ctx, n * sizeof(state_type), category::optimizer_state);
    if constexpr (D::computes)
      kernel<op::average_weights, D>::forward(ctx, {first ? 0.0 : options.decay}, params_.value_spans(), data());
  }

  /// While this guard lives, the model has the averages.
  class in_use {
   public:
    constexpr explicit in_use(weight_average& of, context<D>& ctx) : of_(&of), ctx_(&ctx) { of.begin_use(ctx); }
    in_use(const in_use&) = delete;
    in_use& operator=(const in_use&) = delete;
    constexpr ~in_use() { of_->end_use(*ctx_); }

   private:
    weight_average* of_;
    context<D>* ctx_;
  };
  /// Gives the model the averages until the last guard that this returns ends. Meanwhile 16-bit values lie in memory
  /// of `ctx`; others change places with the averages. Throws error before the first update.
  ///
  /// With param_pieces, only the pieces get the averages: ranks that share a model gather its parameters after this
  /// call, and again after the last guard has ended.
  GRADUS_OF_BUILD constexpr in_use use(context<D>& ctx) {
    if (!averages_) throw error("weight_average.use(ctx): there is no average yet; call update(ctx) after a step");
    return in_use(*this, ctx);
  }

  /// Calls f(named_state) for the average of each parameter, to save or load it. Missing averages are allocated in
  /// `ctx`. Throws error while the averages are in use: they may have changed places with the values.
  template <class Model, class F>
  void for_each_state(context<D>& ctx, const Model& model, const F& f) {
    check_not_in_use("for_each_state(ctx, model, f)");
    if (!averages_) update(ctx);
    const std::vector<std::string> names = params_.names(model);
    for (std::size_t i = 0; i < names.size(); ++i) {
      const auto& e = params_.all()[i];
      f(named_state<D>{names[i], "average", dtype_name<state_type>(), e.param->size(), data() + e.first, e.begin,
                       e.whole});
    }
  }

 private:
  static constexpr bool swaps = std::is_same_v<T, state_type>;
  state_type* data() const { return static_cast<state_type*>(averages_.data()); }
  constexpr void begin_use(context<D>& ctx) {
    if (uses_ == 0) {
      if constexpr (!swaps) own_values_ = buffer<D>(ctx, params_.total_size() * sizeof(T), category::temporary);
      swap(ctx);
    }
    ++uses_;
  }
  constexpr void end_use(context<D>& ctx) {
    if (--uses_ > 0) return;
    if constexpr (swaps) swap(ctx);
    else if constexpr (D::computes) kernel<op::restore_values, D>::forward(ctx, params_.value_spans(), own_values());
    own_values_ = {};
  }
  constexpr void swap(context<D>& ctx) {
    if constexpr (D::computes) kernel<op::swap_averages, D>::forward(ctx, params_.value_spans(), data(), own_values());
  }
  T* own_values() const { return own_values_ ? static_cast<T*>(own_values_.data()) : nullptr; }
  constexpr void check_not_in_use(const char* call) const {
    if (uses_ > 0)
      throw error(std::string("weight_average.") + call + ": the averages are in use; end the use(ctx) before");
  }

  param_list<T, D, G> params_;
  buffer<D> averages_;
  buffer<D> own_values_;  // of the model while the averages are in use, if stored in 16 bits
  std::size_t uses_ = 0;
};

template <class Model>
weight_average(Model&, weight_average_options = {})
    -> weight_average<typename model_traits<Model>::value_type, typename model_traits<Model>::device,
                      typename model_traits<Model>::gradient_value_type>;

}  // namespace gradus
