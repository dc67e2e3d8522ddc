#pragma once
// Stochastic gradient descent with momentum.

#include <array>
#include <cstddef>
#include <string_view>

#include "../core/config.hpp"
#include "element_optimizer.hpp"

namespace gradus {

/// Settings and rule of sgd.
struct sgd_options {
  double lr = 1e-2;
  double momentum = 0;
  double weight_decay = 0;  ///< on matrices only, unless param_settings say otherwise; added to the gradient
  bool nesterov = false;

  static constexpr std::string_view name = "sgd";
  static constexpr std::array states{"momentum_buffer"};
  constexpr std::size_t states_in_use() const { return momentum != 0 ? 1 : 0; }

  template <class C>
  struct update {
    C lr, momentum, decay, velocity_weight, gradient_weight;
    template <class V>
    GRADUS_HD void operator()(V& p, V g, V& v) const {
      const V d = g + V(decay) * p;
      v = V(momentum) * v + d;
      p = p - V(lr) * (V(gradient_weight) * d + V(velocity_weight) * v);
    }
  };
  template <class C>
  GRADUS_HD update<C> at(const tensor_step& s) const {
    return {C(s.lr), C(momentum), C(s.weight_decay), C(nesterov ? momentum : 1.0), C(nesterov ? 1.0 : 0.0)};
  }
};

/// Stochastic gradient descent with momentum: v = momentum * v + g, where v starts at 0; p -= lr * v, and with
/// Nesterov's momentum p -= lr * (g + momentum * v). Without momentum there is no state. Whether momentum
/// is 0 must not change after the first step.
/// @tparam T type that parameters are stored in; the state has its compute type
/// @tparam G type that their gradients accumulate in
template <class T, class D, class G = T>
struct sgd : element_optimizer<sgd_options, T, D, G> {
  using element_optimizer<sgd_options, T, D, G>::element_optimizer;
};

template <class Model, class Options = sgd_options, class... Settings>
sgd(Model&, Options = {}, const Settings&...)
    -> sgd<typename model_traits<Model>::value_type, typename model_traits<Model>::device,
           typename model_traits<Model>::gradient_value_type>;

}  // namespace gradus
