#pragma once
// Lion: steps by the sign of an interpolated momentum.

#include <array>
#include <string_view>

#include "../core/config.hpp"
#include "element_optimizer.hpp"

namespace gradus {

/// Settings and rule of lion, with its authors' defaults.
struct lion_options {
  double lr = 1e-4;
  double beta1 = 0.9;
  double beta2 = 0.99;
  double weight_decay = 0;  ///< on matrices only, unless param_settings say otherwise

  static constexpr std::string_view name = "lion";
  static constexpr std::array states{"exp_avg"};

  template <class C>
  struct update {
    C lr, decay, beta1, one_minus_beta1, beta2, one_minus_beta2;
    template <class V>
    GRADUS_HD void operator()(V& p, V g, V& m) const {
      using math::select;
      const V c = V(beta1) * m + V(one_minus_beta1) * g, zero(0), one(1);
      const V sign = select(c > zero, one, select(c < zero, -one, c * zero));
      p = p - V(lr) * (sign + V(decay) * p);
      m = V(beta2) * m + V(one_minus_beta2) * g;
    }
  };
  template <class C>
  GRADUS_HD update<C> at(const tensor_step& s) const {
    return {C(s.lr), C(s.weight_decay), C(beta1), C(1 - beta1), C(beta2), C(1 - beta2)};
  }
};

/// Lion (Chen et al. 2023, algorithm 2): p -= lr * (sign(beta1 * m + (1 - beta1) * g) + decay * p), then m = beta2 * m
/// + (1 - beta2) * g. State: one value a parameter. Learning rates are 3 to 10 times lower than AdamW's, and decays as
/// much higher.
/// @tparam T type that parameters are stored in; the state has its compute type
/// @tparam G type that their gradients accumulate in
template <class T, class D, class G = T>
struct lion : element_optimizer<lion_options, T, D, G> {
  using element_optimizer<lion_options, T, D, G>::element_optimizer;
};

template <class Model, class Options = lion_options, class... Settings>
lion(Model&, Options = {}, const Settings&...)
    -> lion<typename model_traits<Model>::value_type, typename model_traits<Model>::device,
            typename model_traits<Model>::gradient_value_type>;

}  // namespace gradus
