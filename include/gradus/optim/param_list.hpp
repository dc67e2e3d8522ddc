#pragma once
#include <cstddef>
#include <type_traits>
#include <vector>

#include "../memory/buffer.hpp"
#include "../nn/module.hpp"

namespace gradus {

/// One tensor as an optimizer's kernel sees it: n values, their gradients, up to two moments, and its own weight decay.
template <class T>
struct update_span {
  T* value;
  const T* gradient;
  T* moment1;
  T* moment2;
  index size;
  T weight_decay;
};

namespace op {
/// Sum of squares of all gradients.
struct gradient_square_sum {};
/// One AdamW step on a list of update_spans.
struct adamw_step {};
/// One SGD step on a list of update_spans, with momentum where they have a moment.
struct sgd_step {};
}  // namespace op

namespace detail {

template <class Model>
inline constexpr bool model_has_parameters = !std::is_same_v<contents_of<Model>, contents<types<>, types<>>>;
template <class Kinds>
inline constexpr bool parameters_are_of_one_type_and_device = false;
template <class T, class D>
inline constexpr bool parameters_are_of_one_type_and_device<types<param_kind<T, D>>> = true;

template <class Model, class Kinds>
struct only_kind {
  using type = param_kind<float, cpu>;  // stands in where there is none, or more than one
  static_assert(parameters_are_of_one_type_and_device<Kinds>,
                "optimizer(model): all parameters of the model must be of one element type and on one device");
};
template <class Model, class T, class D>
struct only_kind<Model, types<param_kind<T, D>>> {
  using type = param_kind<T, D>;
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

/// Element type and device of a model's parameters: `value_type` and `device`. A model with none, or several, does not compile.
template <class Model>
using model_traits = typename detail::only_kind<Model, typename detail::contents_of<Model>::kinds>::type;

/// The parameters an optimizer works on, in the model's order. The model must stay where it is while the list is in use.
template <class T, class D>
class param_list {
 public:
  using value_type = T;
  using device = D;

  template <class Model>
  constexpr explicit param_list(Model& model) {
    using kind = model_traits<Model>;
    static_assert(detail::optimizer_is_for<kind, detail::param_kind<T, D>>,
                  "optimizer<T, Device>(model): T and Device must be those of the model's parameters");
    using kinds = typename detail::contents_of<Model>::kinds;
    if constexpr (detail::check_members<Model>() && std::is_same_v<kinds, detail::types<detail::param_kind<T, D>>>)
      visit_params(model, [&](auto& p) {
        params_.push_back(&p);
        total_ += p.size();
      });
    spans_.reserve(params_.size());
  }
  constexpr const std::vector<param_base<T, D>*>& all() const { return params_; }
  constexpr index total_size() const { return total_; }  ///< values in all parameters together

  /// Spans of the parameters that have a gradient; moments lie one after another from the given addresses (null: none).
  /// Weight decay reaches tensors of rank >= 2 only (GPT practice): not biases, not norms.
  std::vector<update_span<T>>& spans(T* moment1, T* moment2, double weight_decay) {
    spans_.clear();
    index at = 0;
    for (param_base<T, D>* p : params_) {
      if (p->has_gradient())
        spans_.push_back({p->data(), p->gradient_data(), moment1 == nullptr ? nullptr : moment1 + at,
                          moment2 == nullptr ? nullptr : moment2 + at, p->size(),
                          p->rank() >= 2 ? static_cast<T>(weight_decay) : T(0)});
      at += p->size();
    }
    return spans_;
  }
  constexpr void clear_gradients() const {
    for (param_base<T, D>* p : params_) p->clear_gradient();
  }

 private:
  std::vector<param_base<T, D>*> params_;
  std::vector<update_span<T>> spans_;
  index total_ = 0;
};

}  // namespace gradus
