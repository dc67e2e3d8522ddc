#pragma once
// The parameters of a model as a flat list of spans, each with its settings.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "../core/config.hpp"
#include "../core/error.hpp"
#include "../core/vector.hpp"
#include "../memory/buffer.hpp"
#include "../model/parameters.hpp"
#include "../tensor/touched_rows.hpp"
#include "model_traits.hpp"
#include "param_pieces.hpp"

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
  bool rows_only = false;  ///< rules for one element (sgd, adamw, adagrad) update only rows that embedding() looked up
};
/// The default settings, as in GPT-2: weight decay on matrices only, not on biases and norms.
constexpr param_settings decay_matrices(const param_info& p) { return {.weight_decay = p.is_matrix ? 1.0 : 0.0}; }

/// A state of one parameter, or of a piece of it, as for_each_state passes it.
template <class D>
struct named_state {
  std::string_view parameter;  ///< as for_each_param names it
  std::string_view state;      ///< such as exp_avg
  std::string_view dtype;      ///< of its elements; see dtype_name
  index_t size;                ///< elements
  void* data;                  ///< on device D
  index_t begin = 0;           ///< position of its first element in the whole parameter's state
  index_t whole = size;        ///< elements of the whole parameter's state
};

/// One tensor, or a piece of it, of an optimizer's kernel: its values, gradients and settings. Its states begin at
/// element `first` of the arrays of states, and its random draws are numbered from `draw` on.
/// @tparam T type that values are stored in
/// @tparam G type that gradients accumulate in
template <class T, class G = T>
struct update_span {
  T* value;
  const G* gradient;
  index_t size;
  index_t first;
  index_t draw;
  double lr, weight_decay;         ///< factors
  const double* missed = nullptr;  ///< on the device: steps in which it had no gradient; null: none

  /// `n` of its elements, from number `from` on.
  update_span cut(index_t from, index_t n) const {
    update_span part = *this;
    part.value += from, part.gradient += from, part.first += from, part.draw += from;
    part.size = n;
    return part;
  }
};
/// A span of rows of a tensor: entry i is element rows[i / width] * width + i % width of it, if that exists.
template <class Span>
struct span_of_rows : Span {
  const std::uint32_t* rows;
  index_t width;
  index_t whole;  ///< elements of the tensor
};
/// The gradient of one tensor or piece. Its first piece_unit elements are the model's unit number `unit`.
template <class G>
struct gradient_span {
  const G* gradient;
  index_t size;
  index_t unit;
};

namespace detail {
template <class Number>
inline constexpr bool settings_are_named = false;
template <class Kind, class KindOfOptimizer>
inline constexpr bool optimizer_is_for = std::is_same_v<Kind, KindOfOptimizer>;
}  // namespace detail

/// The trained parameters of a model in its order, or pieces of them, each with its settings. The model must not move
/// while the list is in use.
template <class T, class D, class G = T>
class param_list {
 public:
  using value_type = T;
  using gradient_value_type = G;
  using device = D;
  using param_type = param_base<T, G, D>;

  /// A parameter, or a piece of one, and its settings.
  struct entry {
    param_type* param;
    param_settings settings;
    index_t first;   ///< number of its first value among all values of this list
    index_t number;  ///< of the parameter, in the model's order
    index_t begin;   ///< its first element in the parameter
    index_t whole;   ///< elements of the whole parameter
    index_t draw;    ///< number of its first value among all values of the whole model
    index_t unit;    ///< number of its first unit among all of the whole model; see units()
  };

  /// Settings by decay_matrices.
  template <class Model>
  constexpr explicit param_list(Model& model) {
    if constexpr (!fits<Model>()) return;
    else if constexpr (is_param_pieces<Model>) add_pieces(model, decay_matrices);
    else visit_trained(model, [&](auto& p) { add(p, decay_matrices(info({}, p))); });
    reserve();
  }
  /// @param settings_of param_info -> param_settings, called once for each parameter of the model
  template <class Model, class Settings>
  constexpr param_list(Model& model, const Settings& settings_of) {
    if constexpr (!fits<Model>()) return;
    else if constexpr (is_param_pieces<Model>) add_pieces(model, settings_of);
    else if (std::is_constant_evaluated()) visit_trained(model, [&](auto& p) { add(p, settings_of(info({}, p))); });
    else for_each_trained(model, [&](std::string_view name, auto& p) { add(p, settings_of(info(name, p))); });
    reserve();
  }
  constexpr const std::vector<entry>& all() const { return entries_; }
  /// All parameters of the model, also where the list is one of pieces.
  constexpr const std::vector<entry>& wholes() const { return wholes_.empty() ? entries_ : wholes_; }
  constexpr index_t total_size() const { return total_; }  ///< values in this list
  /// Runs of up to piece_unit elements that the model's parameters have, each counted from its beginning.
  constexpr index_t units() const { return units_; }
  /// The name of each entry's parameter, if the list is one of this model, or of these pieces. Throws error otherwise.
  template <class Model>
  std::vector<std::string> names(const Model& model) const {
    std::vector<std::string> all = trained_names(model);
    if (all.size() != entries_.size())
      throw error(
          "optimizer.for_each_state(ctx, model, f): pass what the optimizer was made of, the model or its "
          "param_pieces");
    return all;
  }
  /// Throws error if the entry is a part of a parameter, which `optimizer` updates as a whole.
  static constexpr void check_whole(const entry& e, const char* optimizer) {
    if (e.param->size() != e.whole)
      throw error(std::string(optimizer) + "(pieces): it updates parameter " + std::to_string(e.number) +
                  " as a whole; a piece has " + std::to_string(e.param->size()) + " of its " + std::to_string(e.whole) +
                  " elements");
  }

  /// Span of a parameter that has a gradient; marks the parameter as changed.
  /// @param missed steps that each parameter missed, on the device; null: none
  static update_span<T, G> span(const entry& e, const double* missed) {
    return {e.param->edit_data(),
            e.param->gradient_data(),
            e.param->size(),
            e.first,
            e.draw,
            e.settings.lr,
            e.settings.weight_decay,
            missed == nullptr ? nullptr : missed + e.number};
  }
  /// Spans of the parameters that have a gradient; marks them as changed. `but_rows`: without those that row_spans()
  /// has.
  std::vector<update_span<T, G>>& spans(const double* missed, bool but_rows = false) {
    spans_.clear();
    for (const entry& e : entries_)
      if (e.param->has_gradient() && !(but_rows && e.settings.rows_only && is_of_rows(e)))
        spans_.push_back(span(e, missed));
    return spans_;
  }
  /// Spans of the touched rows of parameters whose gradients have only some rows.
  std::vector<span_of_rows<update_span<T, G>>>& row_spans(const double* missed) {
    row_spans_.clear();
    for (const entry& e : entries_)
      if (e.settings.rows_only && is_of_rows(e))
        row_spans_.push_back(of_rows(span(e, missed), e.param->rows()->list(), e.param->rows()->width()));
    return row_spans_;
  }
  /// Spans of the gradients that exist.
  std::vector<gradient_span<G>>& gradient_spans() {
    gradient_spans_.clear();
    for (const entry& e : entries_)
      if (e.param->has_gradient() && !is_of_rows(e))
        gradient_spans_.push_back({e.param->gradient_data(), e.param->size(), e.unit});
    return gradient_spans_;
  }
  /// Spans of the units of gradients that have only some rows.
  std::vector<span_of_rows<gradient_span<G>>>& gradient_row_spans() {
    gradient_row_spans_.clear();
    for (const entry& e : entries_)
      if (is_of_rows(e))
        gradient_row_spans_.push_back(of_rows(gradient_span<G>{e.param->gradient_data(), e.param->size(), e.unit},
                                              e.param->rows()->units(piece_unit), piece_unit));
    return gradient_row_spans_;
  }
  /// Spans of all parameters, without gradients; marks them as changed.
  std::vector<update_span<T, G>>& value_spans() {
    spans_.clear();
    for (const entry& e : entries_)
      spans_.push_back({e.param->edit_data(), nullptr, e.param->size(), e.first, e.draw, 0, 0});
    return spans_;
  }
  /// Marks all parameters as changed, so that their copies in the compute type are refreshed.
  constexpr void mark_changed() const {
    for (const entry& e : entries_) e.param->mark_changed();
  }
  /// Clears the gradients of all parameters of the model.
  constexpr void clear_gradients() const {
    for (const entry& e : wholes()) e.param->clear_gradient();
  }

 private:
  template <class Model>
  static constexpr bool fits() {
    using kind = model_traits<Model>;
    static_assert(detail::optimizer_is_for<kind, detail::param_kind<T, D, G>>,
                  "optimizer<T, Device>(model): T and Device must be those of the model's parameters");
    if constexpr (is_param_pieces<Model>) return std::is_same_v<kind, detail::param_kind<T, D, G>>;
    else if constexpr (!detail::check_members<Model>()) return false;
    else return std::is_same_v<typename detail::contents_of<Model>::kinds, detail::types<detail::param_kind<T, D, G>>>;
  }
  static constexpr bool is_of_rows(const entry& e) {
    const touched_rows* const rows = e.param->rows();
    return rows != nullptr && e.param->has_gradient() && !rows->all();
  }
  template <class Span>
  static span_of_rows<Span> of_rows(Span span, const detail::vector<std::uint32_t>& rows, index_t width) {
    const index_t whole = span.size;
    span.size = rows.size() * width;
    return {span, rows.data(), width, whole};
  }
  static constexpr param_info info(std::string_view name, const param_type& p) {
    return {name, p.rank(), p.size(), p.is_matrix()};
  }
  constexpr void add(param_type& p, const param_settings& settings) {
    if (settings.rows_only) p.track_rows();
    entries_.push_back({&p, settings, total_, entries_.size(), 0, p.size(), total_, units_});
    total_ += p.size();
    units_ += (p.size() + piece_unit - 1) / piece_unit;
  }
  template <class Settings>
  constexpr void add_pieces(param_pieces<T, D, G>& pieces, const Settings& settings_of) {
    std::size_t next = 0;
    for (auto& p : pieces.wholes())
      add(p, settings_of(info(pieces.names().empty() ? std::string_view() : pieces.names()[next++], p)));
    wholes_ = std::exchange(entries_, {});
    total_ = 0;
    for (auto& p : pieces.all()) {
      const auto [number, begin, size] = p.range();
      entry e = wholes_[number];
      e.param = &p;
      e.first = total_;
      e.begin = begin;
      e.draw += begin;
      e.unit += begin / piece_unit;
      entries_.push_back(e);
      total_ += size;
    }
  }
  constexpr void reserve() {
    spans_.reserve(entries_.size());
    gradient_spans_.reserve(entries_.size());
  }

  std::vector<entry> entries_, wholes_;  // the latter: empty where the entries are whole parameters
  std::vector<update_span<T, G>> spans_;
  std::vector<gradient_span<G>> gradient_spans_;
  std::vector<span_of_rows<update_span<T, G>>> row_spans_;
  std::vector<span_of_rows<gradient_span<G>>> gradient_row_spans_;
  index_t total_ = 0, units_ = 0;
};

}  // namespace gradus
