#pragma once
// AdamW, with moments in the compute type or in bf16.

#include <array>
#include <string_view>

#include "../core/config.hpp"
#include "../core/math.hpp"
#include "element_optimizer.hpp"

namespace gradus {

/// Settings and rule of adamw; the defaults are GPT practice.
struct adamw_options {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;  ///< on matrices only, unless param_settings say otherwise

  static constexpr std::string_view name = "adamw";
  static constexpr std::array states{"exp_avg", "exp_avg_sq"};

  template <class C>
  struct update {
    C beta1, beta2, one_minus_beta1, one_minus_beta2, decay_factor, step_size, root_correction, eps;
    template <class V>
    GRADUS_HD void operator()(V& p, V g, V& m, V& v) const {
      using math::sqrt;
      m = V(beta1) * m + V(one_minus_beta1) * g;
      v = V(beta2) * v + V(one_minus_beta2) * g * g;
      p = p * V(decay_factor) - V(step_size) * m / (sqrt(v) * V(root_correction) + V(eps));
    }
  };
  template <class C>
  GRADUS_HD update<C> at(const tensor_step& s) const {
    const double correction1 = 1 - math::pow(beta1, s.t), correction2 = 1 - math::pow(beta2, s.t);
    return {C(beta1),
            C(beta2),
            C(1 - beta1),
            C(1 - beta2),
            C(1 - s.lr * s.weight_decay),
            C(s.lr / correction1),
            C(1 / math::sqrt(correction2)),
            C(eps)};
  }
};

/// AdamW (Loshchilov and Hutter 2019, algorithm 2): p -= lr * decay * p; m and v are running means of g and g^2;
/// p -= lr * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps). State: two values a parameter.
/// @tparam T type that parameters are stored in; the state has its compute type
/// @tparam G type that their gradients accumulate in
template <class T, class D, class G = T>
struct adamw : element_optimizer<adamw_options, T, D, G> {
  using element_optimizer<adamw_options, T, D, G>::element_optimizer;
};

template <class Model, class Options = adamw_options, class... Settings>
adamw(Model&, Options = {}, const Settings&...)
    -> adamw<typename model_traits<Model>::value_type, typename model_traits<Model>::device,
             typename model_traits<Model>::gradient_value_type>;

/// Settings and rule of any_precision_adamw; the defaults are adamw's.
struct any_precision_adamw_options {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;  ///< on matrices only, unless param_settings say otherwise

  static constexpr std::string_view name = "any_precision_adamw";
  static constexpr std::array states = adamw_options::states;
  static constexpr bool compensated = true;
  using state_type = bf16;

  template <class C>
  GRADUS_HD auto at(const tensor_step& s) const {
    return adamw_options{lr, beta1, beta2, eps, weight_decay}.at<C>(s);
  }
};

/// AdamW with moments in bf16. If values are stored in bf16 or f16, one more value a parameter holds the error of their
/// rounding, which the next step adds (Kahan's summation): they learn as if they had 16 bits of mantissa. It is
/// AnyPrecisionAdamW of PyTorch's torchdistX, except that sums are rounded once and that weight decay is compensated
/// too. State: 6 bytes a parameter of 16 bits, 4 of others.
template <class T, class D, class G = T>
struct any_precision_adamw : element_optimizer<any_precision_adamw_options, T, D, G> {
  using element_optimizer<any_precision_adamw_options, T, D, G>::element_optimizer;
};

template <class Model, class Options = any_precision_adamw_options, class... Settings>
any_precision_adamw(Model&, Options = {}, const Settings&...)
    -> any_precision_adamw<typename model_traits<Model>::value_type, typename model_traits<Model>::device,
                           typename model_traits<Model>::gradient_value_type>;

}  // namespace gradus
