#pragma once
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
  double weight_decay = 0.1;  ///< on matrices only, unless told otherwise

  static constexpr std::string_view name = "adamw";
  static constexpr std::array states{"exp_avg", "exp_avg_sq"};

  template <class C>
  struct update {
    C beta1, beta2, rest1, rest2, keep, step, root, eps;
    template <class V>
    GRADUS_HD void operator()(V& p, V g, V& m, V& v) const {
      using math::sqrt;
      m = V(beta1) * m + V(rest1) * g;
      v = V(beta2) * v + V(rest2) * g * g;
      p = p * V(keep) - V(step) * m / (sqrt(v) * V(root) + V(eps));
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
/// p -= lr * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps). Its state takes two values a parameter.
/// @tparam T what parameters are stored in; the state is kept in what T is computed in
/// @tparam G what their gradients accumulate in
template <class T, class D, class G = T>
class adamw : public element_optimizer<adamw_options, T, D, G> {
 public:
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
  double weight_decay = 0.1;  ///< on matrices only, unless told otherwise

  static constexpr std::string_view name = "any_precision_adamw";
  static constexpr std::array states = adamw_options::states;
  static constexpr bool compensated = true;
  using state_type = bf16;

  template <class C>
  GRADUS_HD auto at(const tensor_step& s) const {
    return adamw_options{lr, beta1, beta2, eps, weight_decay}.at<C>(s);
  }
};

/// AdamW whose moments are stored in bf16. Where values are stored in bf16 or f16, what their rounding takes is kept in
/// one more value (Kahan's summation) and comes back in the next step: they learn as if they had 16 bits of mantissa.
/// As AnyPrecisionAdamW of PyTorch's torchdistX, but that sums are rounded once, and that weight decay is compensated
/// too. 6 bytes of state a parameter of 16 bits, and 4 of others.
template <class T, class D, class G = T>
class any_precision_adamw : public element_optimizer<any_precision_adamw_options, T, D, G> {
 public:
  using element_optimizer<any_precision_adamw_options, T, D, G>::element_optimizer;
};

template <class Model, class Options = any_precision_adamw_options, class... Settings>
any_precision_adamw(Model&, Options = {}, const Settings&...)
    -> any_precision_adamw<typename model_traits<Model>::value_type, typename model_traits<Model>::device,
                           typename model_traits<Model>::gradient_value_type>;

}  // namespace gradus
