#pragma once
#include <cstddef>
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
/// Puts averages where values are. What was there goes to where the averages were, if `back` is null, and to `back` else.
struct swap_averages {};
/// Puts what is in `back` where values are.
struct restore_values {};
}  // namespace op::inline GRADUS_BUILD

/// Settings of weight_average.
struct weight_average_options {
  double decay = 0.999;
};

/// An exponential moving average of a model's parameters: average = decay * average + (1 - decay) * value after each step, beginning with
/// the first value, as PyTorch's AveragedModel with get_ema_multi_avg_fn. It takes one value a parameter, in what parameters are
/// computed in.
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

  /// Takes the parameters' values in. The averages are made in `ctx` when this is called first.
  GRADUS_OF_BUILD constexpr void update(context<D>& ctx) {
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

  /// While it lives, the model has the averages; then it has its own values again.
  class in_use {
   public:
    constexpr explicit in_use(weight_average& of, context<D>& ctx) : of_(&of), ctx_(&ctx) {
      if constexpr (!swaps) back_ = buffer<D>(ctx, of.params_.total_size() * sizeof(T), category::temporary);
      of.swap(ctx, back());
    }
    in_use(const in_use&) = delete;
    in_use& operator=(const in_use&) = delete;
    constexpr ~in_use() {
      if constexpr (swaps) of_->swap(*ctx_, nullptr);
      else if constexpr (D::computes) kernel<op::restore_values, D>::forward(*ctx_, of_->params_.value_spans(), back());
    }

   private:
    constexpr T* back() const {
      if constexpr (swaps || !D::computes) return nullptr;
      else return static_cast<T*>(back_.data());
    }
    weight_average* of_;
    context<D>* ctx_;
    [[no_unique_address]] std::conditional_t<std::is_same_v<T, state_type>, std::false_type, buffer<D>> back_;
  };
  /// Puts the averages in the model's place while the result lives. Where values are stored in 16 bits, `ctx` keeps them so long; else
  /// nothing is allocated. Throws error before the first update.
  GRADUS_OF_BUILD constexpr in_use use(context<D>& ctx) {
    if (!averages_) throw error("weight_average.use(ctx): there is no average yet; call update(ctx) after a step");
    return in_use(*this, ctx);
  }

  /// Calls f(named_state) for the average of each parameter, to be saved and loaded; made in `ctx` if there is none.
  template <class Model, class F>
  void for_each_state(context<D>& ctx, const Model& model, const F& f) {
    if (!averages_) update(ctx);
    index_t at = 0;
    for_each_param(model, [&](std::string_view parameter, const auto& p) {
      f(named_state<D>{parameter, "average", dtype_name<state_type>(), p.size(), data() + at});
      at += p.size();
    });
  }

 private:
  static constexpr bool swaps = std::is_same_v<T, state_type>;
  state_type* data() const { return static_cast<state_type*>(averages_.data()); }
  constexpr void swap(context<D>& ctx, T* back) {
    if constexpr (D::computes) kernel<op::swap_averages, D>::forward(ctx, params_.value_spans(), data(), back);
  }

  param_list<T, D, G> params_;
  buffer<D> averages_;
};

template <class Model>
weight_average(Model&, weight_average_options = {})
    -> weight_average<typename model_traits<Model>::value_type, typename model_traits<Model>::device,
                      typename model_traits<Model>::gradient_value_type>;

}  // namespace gradus
