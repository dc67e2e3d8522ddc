#pragma once
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
template <class T, class D>
class adamw : public optimizer<T, D> {
 public:
  adamw_options options;  ///< may be changed between steps (a schedule sets `lr`)

  template <class Model>
  constexpr explicit adamw(Model& model, adamw_options o = {}) : optimizer<T, D>(model), options(o) {}

  /// Updates every parameter that has a gradient, then forgets the gradients.
  constexpr void step(context<D>& ctx) {
    T* m = this->state(ctx, moment1_);
    T* v = this->state(ctx, moment2_);
    const index n = this->params_.total_size();
    const typename context<D>::running now(
        ctx, activity{"adamw", phase::update, {14 * n, 4 * n * sizeof(T), 3 * n * sizeof(T)}});
    if constexpr (!std::is_same_v<D, meta>) {
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
    -> adamw<typename model_traits<Model>::value_type, typename model_traits<Model>::device>;

}  // namespace gradus
