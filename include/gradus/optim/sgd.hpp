#pragma once
#include "../core/config.hpp"
#include "optimizer.hpp"

namespace gradus {

/// Settings of sgd.
struct sgd_options {
  double lr = 1e-2;
  double momentum = 0;
  double weight_decay = 0;  ///< on tensors of rank >= 2 only; added to the gradient
};

/// What one step's kernel needs besides the tensors.
struct sgd_scalars {
  double lr, momentum, gradient_scale;
  bool first;
};

/// Stochastic gradient descent with momentum: v = momentum * v + g (v = g in the first step), p -= lr * v. Without momentum
/// it keeps no state.
/// @tparam T what parameters are stored in; the state is kept in what T is computed in
/// @tparam G what their gradients gather in
template <class T, class D, class G = T>
class sgd : public optimizer<T, D, G> {
  using typename optimizer<T, D, G>::state_type;

 public:
  sgd_options options;  ///< may be changed between steps; momentum must be zero or not from the start

  template <class Model>
  constexpr explicit sgd(Model& model, sgd_options o = {}) : optimizer<T, D, G>(model), options(o) {}

  /// Updates every parameter that has a gradient, then forgets the gradients.
  GRADUS_OF_BUILD constexpr void step(context<D>& ctx) {
    state_type* v = options.momentum != 0 ? this->state(ctx, velocity_) : nullptr;
    const index n = this->params_.total_size();
    const typename context<D>::running now(
        ctx, activity{"sgd",
                      phase::update,
                      {4 * n, n * (sizeof(T) + sizeof(G) + sizeof(state_type)), n * (sizeof(T) + sizeof(state_type))}});
    if constexpr (D::computes) {
      const sgd_scalars s{options.lr, options.momentum, this->gradient_scale_, this->steps_ == 0};
      kernel<op::sgd_step, D>::forward(ctx, this->params_.spans(v, nullptr, options.weight_decay), s);
    }
    ++this->steps_;
    this->clear_gradients();
  }

 private:
  buffer<D> velocity_;
};

template <class Model>
sgd(Model&, sgd_options = {}) -> sgd<typename model_traits<Model>::value_type, typename model_traits<Model>::device,
                                     typename model_traits<Model>::gradient_value_type>;

}  // namespace gradus
