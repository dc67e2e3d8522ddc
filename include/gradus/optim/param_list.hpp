#pragma once
#include <cstddef>
#include <type_traits>
#include <vector>

#include "../core/config.hpp"
#include "../memory/buffer.hpp"
#include "../nn/module.hpp"

namespace gradus {

/// One tensor as an optimizer's kernel sees it: n values, their gradients, up to two moments, and its own weight decay.
/// @tparam T what values are stored in; moments are kept in what T is computed in
/// @tparam G what gradients gather in
template <class T, class G = T>
struct update_span {
  using state_type = compute_type<T>;
  T* value;
  const G* gradient;
  state_type* moment1;
  state_type* moment2;
  index size;
  state_type weight_decay;
};

namespace op::inline GRADUS_BUILD {
/// Sum of squares of all gradients, by way of partial sums. Their memory is the caller's, on every device: a kernel that asked for its
/// own would depart from a plan made on meta.
struct gradient_square_sum {
  using partial_sums = shape<1024>;
};
/// One AdamW step on a list of update_spans.
struct adamw_step {};
/// One SGD step on a list of update_spans, with momentum where they have a moment.
struct sgd_step {};
}  // namespace op::inline GRADUS_BUILD

namespace detail {

template <class Model>
inline constexpr bool model_has_parameters = !std::is_same_v<contents_of<Model>, contents<types<>, types<>>>;
template <class Kinds>
inline constexpr bool parameters_are_of_one_type_and_device = false;
template <class T, class D, class G>
inline constexpr bool parameters_are_of_one_type_and_device<types<param_kind<T, D, G>>> = true;

template <class Model, class Kinds>
struct only_kind {
  using type = param_kind<float, cpu>;  // stands in where there is none, or more than one
  static_assert(parameters_are_of_one_type_and_device<Kinds>,
                "optimizer(model): all parameters of the model must be of one element type and on one device");
};
template <class Model, class T, class D, class G>
struct only_kind<Model, types<param_kind<T, D, G>>> {
  using type = param_kind<T, D, G>;
};
template <class Model>
struct only_kind<Model, types<>> {
  using type = param_kind<float, cpu>;
  static_assert(model_has_parameters<Model>,
                "optimizer(model): the model has no parameters; its members must be gradus::param, or hold some");
};

template <class Kind, class KindOfOptimizer>
inline constexpr bool optimizer_is_for = std::is_same_v<Kind, KindOfOptimizer>;

}  // namespace detail

/// Element types and device of a model's parameters: `value_type`, `gradient_value_type` and `device`. A model with none, or several, does not compile.
template <class Model>
using model_traits = typename detail::only_kind<Model, typename detail::contents_of<Model>::kinds>::type;

/// The parameters an optimizer works on, in the model's order. The model must stay where it is while the list is in use.
template <class T, class D, class G = T>
class param_list {
 public:
  using value_type = T;
  using gradient_value_type = G;
  using state_type = compute_type<T>;
  using device = D;
  using param_type = param_base<T, G, D>;

  template <class Model>
  constexpr explicit param_list(Model& model) {
    using kind = model_traits<Model>;
    static_assert(detail::optimizer_is_for<kind, detail::param_kind<T, D, G>>,
                  "optimizer<T, Device>(model): T and Device must be those of the model's parameters");
    using kinds = typename detail::contents_of<Model>::kinds;
    if constexpr (detail::check_members<Model>() && std::is_same_v<kinds, detail::types<detail::param_kind<T, D, G>>>)
      visit_params(model, [&](auto& p) {
        params_.push_back(&p);
        total_ += p.size();
      });
    spans_.reserve(params_.size());
  }
  constexpr const std::vector<param_type*>& all() const { return params_; }
  constexpr index total_size() const { return total_; }  ///< values in all parameters together

  /// Spans of the parameters that have a gradient; moments lie one after another from the given addresses (null: none).
  /// Weight decay reaches tensors of rank >= 2 only (GPT practice): not biases, not norms.
  std::vector<update_span<T, G>>& spans(state_type* moment1, state_type* moment2, double weight_decay) {
    spans_.clear();
    index at = 0;
    for (param_type* p : params_) {
      if (p->has_gradient())
        spans_.push_back({p->edit_data(), p->gradient_data(), moment1 == nullptr ? nullptr : moment1 + at,
                          moment2 == nullptr ? nullptr : moment2 + at, p->size(),
                          p->rank() >= 2 ? static_cast<state_type>(weight_decay) : state_type(0)});
      at += p->size();
    }
    return spans_;
  }
  /// The same for those who only look at gradients: values are null.
  std::vector<update_span<T, G>>& gradient_spans() {
    spans_.clear();
    for (param_type* p : params_)
      if (p->has_gradient())
        spans_.push_back({nullptr, p->gradient_data(), nullptr, nullptr, p->size(), state_type(0)});
    return spans_;
  }
  constexpr void clear_gradients() const {
    for (param_type* p : params_) p->clear_gradient();
  }

 private:
  std::vector<param_type*> params_;
  std::vector<update_span<T, G>> spans_;
  index total_ = 0;
};

}  // namespace gradus
