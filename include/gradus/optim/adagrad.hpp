#pragma once
// Adagrad: steps divided by the root of the sum of all squared gradients.

#include <array>
#include <string_view>

#include "../core/config.hpp"
#include "../core/math.hpp"
#include "element_optimizer.hpp"

namespace gradus {

/// Settings and rule of adagrad; the defaults are PyTorch's.
struct adagrad_options {
  double lr = 1e-2;
  double lr_decay = 0;      ///< step t has the learning rate lr / (1 + (t - 1) * lr_decay)
  double weight_decay = 0;  ///< on matrices only, unless param_settings say otherwise; added to the gradient
  double eps = 1e-10;

  static constexpr std::string_view name = "adagrad";
  static constexpr std::array states{"sum"};

  template <class C>
  struct update {
    C lr, decay, eps;
    template <class V>
    GRADUS_HD void operator()(V& p, V g, V& sum) const {
      using math::sqrt;
      const V d = g + V(decay) * p;
      sum = sum + d * d;
      p = p - V(lr) * d / (sqrt(sum) + V(eps));
    }
  };
  template <class C>
  GRADUS_HD update<C> at(const tensor_step& s) const {
    return {C(s.lr / (1 + (s.t - 1) * lr_decay)), C(s.weight_decay), C(eps)};
  }
};

/// Adagrad (Duchi et al. 2011): sum += g^2, where the sum starts at 0; p -= lr * g / (sqrt(sum) + eps). State: one
/// value a parameter. A step that looks up few rows of a large table: see param_settings::rows_only.
/// @tparam T type that parameters are stored in; the state has its compute type
/// @tparam G type that their gradients accumulate in
template <class T, class D, class G = T>
struct adagrad : element_optimizer<adagrad_options, T, D, G> {
  using element_optimizer<adagrad_options, T, D, G>::element_optimizer;
};

template <class Model, class Options = adagrad_options, class... Settings>
adagrad(Model&, Options = {}, const Settings&...)
    -> adagrad<typename model_traits<Model>::value_type, typename model_traits<Model>::device,
               typename model_traits<Model>::gradient_value_type>;

}  // namespace gradus
