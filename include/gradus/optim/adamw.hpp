#pragma once
#include "../core/config.hpp"
#include "optimizer.hpp"

namespace gradus {

/// Settings of adamw; the defaults are GPT practice.
struct adamw_options {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;  ///< on tensors of rank >= 2 only
};

/// What one step's kernel needs besides the tensors.
struct adamw_scalars {
  double lr, beta1, beta2, eps, correction1, correction2, gradient_scale;
};

/// AdamW (Loshchilov and Hutter 2019, algorithm 2): p -= lr * decay * p; m and v are running means of g and g^2;
/// p -= lr * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps). Its state takes two values a parameter.
/// @tparam T what parameters are stored in; the state is kept in what T is computed in
/// @tparam G what their gradients gather in
template <class T, class D, class G = T>
class adamw : public optimizer<T, D, G> {
  using typename optimizer<T, D, G>::state_type;

 public:
  adamw_options options;  ///< may be changed between steps (a schedule sets `lr`)

  template <class Model>
  constexpr explicit adamw(Model& model, adamw_options o = {}) : optimizer<T, D, G>(model), options(o) {}

  /// Updates every parameter that has a gradient, then forgets the gradients.
  GRADUS_OF_BUILD constexpr void step(context<D>& ctx) {
    state_type* m = this->state(ctx, moment1_);
    state_type* v = this->state(ctx, moment2_);
    const index n = this->params_.total_size();
    const typename context<D>::running now(ctx, activity{"adamw",
                                                         phase::update,
                                                         {14 * n, n * (sizeof(T) + sizeof(G) + 2 * sizeof(state_type)),
                                                          n * (sizeof(T) + 2 * sizeof(state_type))}});
    if constexpr (D::computes) {
      const double t = static_cast<double>(this->steps_ + 1);
      const adamw_scalars s{options.lr,
                            options.beta1,
                            options.beta2,
                            options.eps,
                            1 - std::pow(options.beta1, t),
                            1 - std::pow(options.beta2, t),
                            this->gradient_scale_};
      kernel<op::adamw_step, D>::forward(ctx, this->params_.spans(m, v, options.weight_decay), s);
    }
    ++this->steps_;
    this->clear_gradients();
  }

 private:
  buffer<D> moment1_;
  buffer<D> moment2_;
};

template <class Model>
adamw(Model&, adamw_options = {})
    -> adamw<typename model_traits<Model>::value_type, typename model_traits<Model>::device,
             typename model_traits<Model>::gradient_value_type>;

}  // namespace gradus
