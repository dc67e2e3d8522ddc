#pragma once
#include <cmath>
#include <type_traits>

#include "../core/config.hpp"
#include "../tensor/creation.hpp"
#include "param_list.hpp"

namespace gradus {

/// What all optimizers share: the parameters, gradient clipping, and the end of a step. A step uses the gradients gathered
/// since the last one, in one pass over all tensors, and then forgets them.
template <class T, class D, class G = T>
class optimizer {
 public:
  using state_type = compute_type<T>;

  /// Scales the gradients of the next step so that their joint Euclidean norm is at most `max_norm`, and returns the norm
  /// before that: coefficient min(1, max_norm / (norm + 1e-6)), as PyTorch's clip_grad_norm_. What scale_gradients and an earlier
  /// clip asked for counts. No pass is made for the scaling.
  GRADUS_OF_BUILD constexpr double clip(context<D>& ctx, double max_norm) {
    if (!(max_norm >= 0)) throw error("optimizer.clip(ctx, max_norm): max_norm must be 0 or more");
    const index bytes = params_.total_size() * sizeof(G);
    const typename context<D>::running now(
        ctx, activity{"clip", phase::update, {2 * params_.total_size(), bytes, sizeof(double)}});
    auto squares = empty<double, shape<>>(ctx, category::temporary);
    auto partial = empty<double, op::gradient_square_sum::partial_sums>(ctx, category::temporary);
    if constexpr (!D::computes) return 0;
    else {
      kernel<op::gradient_square_sum, D>::forward(ctx, squares.view(), partial.view(), params_.gradient_spans());
      const double norm = std::sqrt(item(squares)) * std::abs(gradient_scale_);
      const double coefficient = max_norm / (norm + 1e-6);
      gradient_scale_ *= coefficient < 1 ? coefficient : 1;
      return norm;
    }
  }
  /// Multiplies the gradients of the next step, for instance by one over the number of accumulated batches.
  constexpr void scale_gradients(double factor) { gradient_scale_ *= factor; }
  /// Forgets the gradients gathered so far, and what was asked for the next step: what to do with a step to be skipped.
  constexpr void clear_gradients() {
    params_.clear_gradients();
    gradient_scale_ = 1;
  }
  constexpr const param_list<T, D, G>& parameters() const { return params_; }
  constexpr std::size_t steps() const { return steps_; }  ///< steps taken
  /// Goes on from a step of an earlier run.
  constexpr void set_steps(std::size_t taken) { steps_ = taken; }

 protected:
  template <class Model>
  constexpr explicit optimizer(Model& model) : params_(model) {}

  /// A zeroed state of one value a parameter, made on the first step.
  constexpr state_type* state(context<D>& ctx, buffer<D>& b) const {
    if (!b) {
      b = buffer<D>(ctx, params_.total_size() * sizeof(state_type), category::optimizer_state);
      if constexpr (D::computes) device_access<D>::zero(ctx, b.data(), b.bytes());
    }
    if constexpr (!D::computes) return nullptr;
    else return static_cast<state_type*>(b.data());
  }

  param_list<T, D, G> params_;
  double gradient_scale_ = 1;
  std::size_t steps_ = 0;
};

}  // namespace gradus
