#pragma once
#include <cstddef>
#include <string_view>
#include <type_traits>
#include <vector>

#include "../core/config.hpp"
#include "../memory/buffer.hpp"
#include "../model/parameters.hpp"

namespace gradus {

/// What the settings of a parameter may be chosen by.
struct param_info {
  std::string_view name;  ///< as for_each_param gives it; empty in a constant expression
  index_t rank;
  index_t size;
  bool is_matrix;  ///< see gradus::is_matrix
};
/// Settings of one parameter: what the optimizer's own are multiplied by.
struct param_settings {
  double lr = 1;              ///< factor of the learning rate; 0 keeps the parameter as it is
  double weight_decay = 1;    ///< factor of the weight decay
  bool orthogonal = true;     ///< muon orthogonalises its updates, if it is a matrix
  bool float_states = false;  ///< adamw_8bit keeps its moments in float
};
/// The settings that hold where no others are given, those of GPT practice: weight decay on matrices only, not on
/// biases and norms.
constexpr param_settings decay_matrices(const param_info& p) { return {.weight_decay = p.is_matrix ? 1.0 : 0.0}; }

/// A state of one parameter, as for_each_state gives it.
template <class D>
struct named_state {
  std::string_view parameter;  ///< as for_each_param names it
  std::string_view state;      ///< such as exp_avg
  std::string_view dtype;      ///< of its elements; see dtype_name
  index_t size;                ///< elements
  void* data;                  ///< on device D
};

/// One tensor as an optimizer's kernel sees it: its values, their gradients, and its settings. Its states lie from
/// element `first` on in the arrays of states, and its random draws are numbered by it.
/// @tparam T what values are stored in
/// @tparam G what gradients accumulate in
template <class T, class G = T>
struct update_span {
  T* value;
  const G* gradient;
  index_t size;
  index_t first;
  double lr, weight_decay;         ///< factors
  const double* missed = nullptr;  ///< on the device: how many of the steps taken it had no gradient in; null: none
};
/// The gradient of one tensor.
template <class G>
struct gradient_span {
  const G* gradient;
  index_t size;
};

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

template <class Number>
inline constexpr bool settings_are_named = false;
template <class Kind, class KindOfOptimizer>
inline constexpr bool optimizer_is_for = std::is_same_v<Kind, KindOfOptimizer>;

}  // namespace detail

/// Element types and device of a model's parameters: `value_type`, `gradient_value_type` and `device`. A model with
/// none, or several, does not compile.
template <class Model>
using model_traits = typename detail::only_kind<Model, typename detail::contents_of<Model>::kinds>::type;

/// The parameters an optimizer works on, in the model's order, each with its settings. The model must stay where it is
/// while the list is in use.
template <class T, class D, class G = T>
class param_list {
 public:
  using value_type = T;
  using gradient_value_type = G;
  using device = D;
  using param_type = param_base<T, G, D>;

  /// A parameter, its settings, where its first value is in the row of all values, and its number in the model's order.
  struct entry {
    param_type* param;
    param_settings settings;
    index_t first;
    index_t number;
  };

  /// Settings by decay_matrices.
  template <class Model>
  constexpr explicit param_list(Model& model) {
    if constexpr (fits<Model>())
      visit_params(model, [&](auto& p) { add(p, decay_matrices({{}, p.rank(), p.size(), p.is_matrix()})); });
    spans_.reserve(entries_.size());
    gradient_spans_.reserve(entries_.size());
  }
  /// @param settings_of param_info -> param_settings, asked once for each parameter
  template <class Model, class Settings>
  constexpr param_list(Model& model, const Settings& settings_of) {
    if constexpr (fits<Model>()) {
      if (std::is_constant_evaluated())
        visit_params(model, [&](auto& p) { add(p, settings_of(param_info{{}, p.rank(), p.size(), p.is_matrix()})); });
      else
        for_each_param(model, [&](std::string_view name, auto& p) {
          add(p, settings_of(param_info{name, p.rank(), p.size(), p.is_matrix()}));
        });
    }
    spans_.reserve(entries_.size());
    gradient_spans_.reserve(entries_.size());
  }
  constexpr const std::vector<entry>& all() const { return entries_; }
  constexpr index_t total_size() const { return total_; }  ///< values in all parameters together

  /// Span of a parameter that has a gradient, to be changed.
  /// @param missed steps that each parameter missed, on the device; null: none
  static update_span<T, G> span(const entry& e, const double* missed) {
    return {e.param->edit_data(),
            e.param->gradient_data(),
            e.param->size(),
            e.first,
            e.settings.lr,
            e.settings.weight_decay,
            missed == nullptr ? nullptr : missed + e.number};
  }
  /// Spans of the parameters that have a gradient, to be changed.
  std::vector<update_span<T, G>>& spans(const double* missed) {
    spans_.clear();
    for (const entry& e : entries_)
      if (e.param->has_gradient()) spans_.push_back(span(e, missed));
    return spans_;
  }
  /// The gradients that are there.
  std::vector<gradient_span<G>>& gradient_spans() {
    gradient_spans_.clear();
    for (const entry& e : entries_)
      if (e.param->has_gradient()) gradient_spans_.push_back({e.param->gradient_data(), e.param->size()});
    return gradient_spans_;
  }
  /// Spans of all parameters, to be changed, without their gradients.
  std::vector<update_span<T, G>>& value_spans() {
    spans_.clear();
    for (const entry& e : entries_) spans_.push_back({e.param->edit_data(), nullptr, e.param->size(), e.first, 0, 0});
    return spans_;
  }
  /// Says that the values of all parameters were changed.
  constexpr void note_change() const {
    for (const entry& e : entries_) static_cast<void>(e.param->edit_data());
  }
  constexpr void clear_gradients() const {
    for (const entry& e : entries_) e.param->clear_gradient();
  }

 private:
  template <class Model>
  static constexpr bool fits() {
    using kind = model_traits<Model>;
    static_assert(detail::optimizer_is_for<kind, detail::param_kind<T, D, G>>,
                  "optimizer<T, Device>(model): T and Device must be those of the model's parameters");
    using kinds = typename detail::contents_of<Model>::kinds;
    if constexpr (!detail::check_members<Model>()) return false;
    else return std::is_same_v<kinds, detail::types<detail::param_kind<T, D, G>>>;
  }
  constexpr void add(param_type& p, const param_settings& settings) {
    entries_.push_back({&p, settings, total_, entries_.size()});
    total_ += p.size();
  }

  std::vector<entry> entries_;
  std::vector<update_span<T, G>> spans_;
  std::vector<gradient_span<G>> gradient_spans_;
  index_t total_ = 0;
};

}  // namespace gradus
