#pragma once
// The parameters of a model as a flat list of spans, each with its settings.

#include <cstddef>
#include <string_view>
#include <type_traits>
#include <vector>

#include "../core/config.hpp"
#include "../memory/buffer.hpp"
#include "../model/parameters.hpp"

namespace gradus {

/// What the choice of a parameter's settings may depend on.
struct param_info {
  std::string_view name;  ///< as for_each_param passes it; empty in a constant expression
  index_t rank;
  index_t size;
  bool is_matrix;  ///< see gradus::is_matrix
};
/// Settings of one parameter: factors of the optimizer's own.
struct param_settings {
  double lr = 1;              ///< factor of the learning rate; 0 freezes the parameter
  double weight_decay = 1;    ///< factor of the weight decay
  bool orthogonal = true;     ///< muon orthogonalises the updates of a matrix
  bool float_states = false;  ///< adamw_8bit keeps its moments in float
};
/// The default settings, as in GPT-2: weight decay on matrices only, not on biases and norms.
constexpr param_settings decay_matrices(const param_info& p) { return {.weight_decay = p.is_matrix ? 1.0 : 0.0}; }

/// A state of one parameter, as for_each_state passes it.
template <class D>
struct named_state {
  std::string_view parameter;  ///< as for_each_param names it
  std::string_view state;      ///< such as exp_avg
  std::string_view dtype;      ///< of its elements; see dtype_name
  index_t size;                ///< elements
  void* data;                  ///< on device D
};

/// One tensor of an optimizer's kernel: its values, gradients and settings. Its states begin at element `first` of the
/// arrays of states, and its random draws are numbered from `first` on.
/// @tparam T type that values are stored in
/// @tparam G type that gradients accumulate in
template <class T, class G = T>
struct update_span {
  T* value;
  const G* gradient;
  index_t size;
  index_t first;
  double lr, weight_decay;         ///< factors
  const double* missed = nullptr;  ///< on the device: steps in which it had no gradient; null: none
};
/// The gradient of one tensor.
template <class G>
struct gradient_span {
  const G* gradient;
  index_t size;
};

namespace detail {

template <class Model>
inline constexpr bool model_has_parameters = !std::is_same_v<typename contents_of<Model>::kinds, types<>> ||
                                             !all_parameters_are_found<typename contents_of<Model>::hidden>;
template <class Kinds>
inline constexpr bool parameters_are_of_one_type_and_device = false;
template <class T, class D, class G>
inline constexpr bool parameters_are_of_one_type_and_device<types<param_kind<T, D, G>>> = true;

template <class Model, class Kinds>
struct only_kind {
  using type = param_kind<float, cpu>;  // a placeholder after the error
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

/// Element types and device of a model's parameters: `value_type`, `gradient_value_type` and `device`. A model without
/// parameters, or with parameters of several types, does not compile.
template <class Model>
using model_traits = typename detail::only_kind<Model, typename detail::contents_of<Model>::kinds>::type;

/// The parameters of a model in its order, each with its settings. The model must not move while the list is in use.
template <class T, class D, class G = T>
class param_list {
 public:
  using value_type = T;
  using gradient_value_type = G;
  using device = D;
  using param_type = param_base<T, G, D>;

  /// A parameter, its settings, the number of its first value among all values, and its number in the model's order.
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
  /// @param settings_of param_info -> param_settings, called once for each parameter
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

  /// Span of a parameter that has a gradient; marks the parameter as changed.
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
  /// Spans of the parameters that have a gradient; marks them as changed.
  std::vector<update_span<T, G>>& spans(const double* missed) {
    spans_.clear();
    for (const entry& e : entries_)
      if (e.param->has_gradient()) spans_.push_back(span(e, missed));
    return spans_;
  }
  /// Spans of the gradients that exist.
  std::vector<gradient_span<G>>& gradient_spans() {
    gradient_spans_.clear();
    for (const entry& e : entries_)
      if (e.param->has_gradient()) gradient_spans_.push_back({e.param->gradient_data(), e.param->size()});
    return gradient_spans_;
  }
  /// Spans of all parameters, without gradients; marks them as changed.
  std::vector<update_span<T, G>>& value_spans() {
    spans_.clear();
    for (const entry& e : entries_) spans_.push_back({e.param->edit_data(), nullptr, e.param->size(), e.first, 0, 0});
    return spans_;
  }
  /// Marks all parameters as changed, so that their low-precision copies are refreshed.
  constexpr void mark_changed() const {
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
