#pragma once
#include <cstddef>
#include <tuple>
#include <utility>
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

/// The parameters an optimizer works on, in the model's order. The model must stay where it is while the list is in use.
template <class T, class D>
class param_list {
 public:
  using value_type = T;
  using device = D;

  template <class Model>
  constexpr explicit param_list(Model& model) {
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

namespace detail {

/// Element type and device of the first parameter found in a model of type M; `found` is false where there is none.
struct no_param {
  static constexpr bool found = false;
};
template <class T, class D>
struct param_traits {
  static constexpr bool found = true;
  using value_type = T;
  using device = D;
};

template <class M>
constexpr auto traits_of(M& m);

template <class... Ms>
constexpr auto traits_of_first(Ms&... members) {
  if constexpr (sizeof...(Ms) == 0) return no_param{};
  else
    return [](auto& head, auto&... rest) {
      if constexpr (decltype(traits_of(head))::found) return traits_of(head);
      else return traits_of_first(rest...);
    }(members...);
}

template <class M>
constexpr auto traits_of(M& m) {
  if constexpr (is_param<M>) return param_traits<typename M::value_type, typename M::device>{};
  else if constexpr (is_list<M>) return traits_of(m.front());
  else if constexpr (names_members<M> || (std::is_aggregate_v<M> && std::is_class_v<M>))
    return std::apply([](auto&... member) { return traits_of_first(member...); }, members_of(m));
  else return no_param{};
}

}  // namespace detail

/// Element type and device of a model's parameters.
template <class Model>
using model_traits = decltype(detail::traits_of(std::declval<Model&>()));

}  // namespace gradus
