#pragma once
#include <algorithm>
#include <cstddef>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "../core/config.hpp"
#include "optimizer.hpp"

namespace gradus {

/// Settings of adafactor; the defaults are those of Hugging Face's Adafactor.
struct adafactor_options {
  double lr = 0;                ///< 0: steps relative to the parameters, min(1e-2, 1 / sqrt(t))
  bool warmup = false;          ///< relative steps rise first: min(1e-6 t, 1 / sqrt(t))
  bool scale_parameter = true;  ///< steps are multiplied by the parameter's root mean square, at least eps2
  double eps1 = 1e-30;          ///< added to squared gradients
  double eps2 = 1e-3;
  double clip_threshold = 1;  ///< for the root mean square of an update
  double decay_rate = -0.8;   ///< the average of squares forgets by 1 - t^decay_rate
  double beta1 = 0;           ///< of the average of updates; 0: none is kept
  double weight_decay = 0;    ///< on matrices only, unless told otherwise
};

/// One tensor as adafactor's kernel sees it: `matrices` of rows x columns with averages of each row and each column;
/// or, where `rows` are 0, a vector with one of each element.
template <class T, class G>
struct factored_span : update_span<T, G> {
  index_t matrices, rows, columns;
  float *row_means, *column_means;  ///< of a vector: the average of squares, and null
  float* update;                    ///< the average of updates; null: none is kept
};

namespace op::inline GRADUS_BUILD {
/// One step of Adafactor on a list of factored_spans.
struct adafactor_step {
  static constexpr index_t most_parts = 64;  ///< into which the rows of a matrix are cut, at most

  const adafactor_options& options;  ///< the optimizer's own

  /// Bytes of scratch for the largest tensor: sums of columns by part, and three sums of each part.
  static constexpr index_t scratch(index_t columns) { return most_parts * (columns + 3) + columns; }
};
}  // namespace op::inline GRADUS_BUILD

/// Adafactor (Shazeer and Stern 2018, as in Hugging Face's transformers): squared gradients g^2 + eps1 are averaged by
/// row (R) and by column (C) of the last two axes; the update g / sqrt(R C / mean R) is divided by max(1, RMS /
/// clip_threshold) and multiplied by the rate. Vectors (see is_matrix) have an average for each element. 4 (r + c) / (r
/// c) bytes of state a parameter of an r x c matrix, and 4 more with beta1. @tparam T what parameters are stored in;
/// not double @tparam G what their gradients accumulate in
template <class T, class D, class G = T>
class adafactor : public optimizer<T, D, G> {
 public:
  adafactor_options options;  ///< may be changed between steps, but for whether beta1 is 0

  template <class Model>
  constexpr explicit adafactor(Model& model, adafactor_options o = {}) : optimizer<T, D, G>(model), options(o) {
    count();
  }
  /// @param settings_of param_info -> param_settings: which parameters learn or decay otherwise
  template <class Model, class Settings>
  constexpr adafactor(Model& model, adafactor_options o, const Settings& settings_of)
      : optimizer<T, D, G>(model, settings_of), options(o) {
    count();
  }

  /// Not with a number: settings are named.
  template <class Model, std::convertible_to<double> Number, class... Settings>
  constexpr adafactor(Model& model, Number, const Settings&...) : adafactor(model) {
    static_assert(detail::settings_are_named<Number>, "optimizer(model, 1e-3): settings are named; write {.lr = 1e-3}");
  }

  /// Updates every parameter that has a gradient, then forgets the gradients. State is made in `ctx` in the first step.
  GRADUS_OF_BUILD constexpr void step(context<D>& ctx) {
    make_states(ctx);
    this->prepare(ctx);
    const index_t n = this->params_.total_size();
    const typename context<D>::running now(
        ctx, activity{"adafactor", phase::update, {20 * n, n * (3 * sizeof(G) + 2 * sizeof(T)), n * sizeof(T)}});
    // Made once: a step that asks for no memory can be captured as a graph and be sent again as it is.
    if (!scratch_)
      scratch_ = buffer<D>(ctx, op::adafactor_step::scratch(widest_) * sizeof(double), category::temporary);
    if constexpr (D::computes) {
      spans_.clear();
      for_spans([&](const auto& e, factored_span<T, G> s) {
        if (!e.param->has_gradient()) return;
        static_cast<update_span<T, G>&>(s) = this->params_.span(e, this->missed());
        spans_.push_back(s);
      });
      kernel<op::adafactor_step, D>::forward(ctx, op::adafactor_step{options}, spans_, this->inputs(),
                                             static_cast<double*>(scratch_.data()));
    }
    this->finish(ctx);
  }

  /// Calls f(named_state) for every state of every parameter: exp_avg_sq_row and exp_avg_sq_col, or exp_avg_sq, and
  /// exp_avg. States that are not there yet are made in `ctx`.
  template <class Model, class F>
  void for_each_state(context<D>& ctx, const Model& model, const F& f) {
    make_states(ctx);
    std::vector<factored_span<T, G>> all;
    for_spans([&](const auto&, const factored_span<T, G>& s) { all.push_back(s); });
    std::size_t next = 0;
    for (const std::string& name : param_names(model)) {
      const factored_span<T, G>& s = all[next++];
      if (s.rows == 0) {
        f(named_state<D>{name, "exp_avg_sq", "f32", s.size, s.row_means});
      } else {
        f(named_state<D>{name, "exp_avg_sq_row", "f32", s.matrices * s.rows, s.row_means});
        f(named_state<D>{name, "exp_avg_sq_col", "f32", s.matrices * s.columns, s.column_means});
      }
      if (s.update != nullptr) f(named_state<D>{name, "exp_avg", "f32", s.size, s.update});
    }
  }

 private:
  // What the averages of a parameter's squares take, in values.
  template <class Param>
  static constexpr index_t squares_of(const Param& p) {
    if (!p.is_matrix()) return p.size();
    const index_t columns = p.extent(p.rank() - 1), rows = p.extent(p.rank() - 2);
    return p.size() / (rows * columns) * (rows + columns);
  }
  constexpr void count() {
    static_assert(std::is_same_v<compute_type<T>, float>, "adafactor(model): its step is made in float, not in double");
    for (const auto& e : this->params_.all()) {
      squares_ += squares_of(*e.param);
      if (e.param->is_matrix()) widest_ = std::max(widest_, e.param->extent(e.param->rank() - 1));
    }
  }
  constexpr void make_states(context<D>& ctx) {
    const typename context<D>::running now(ctx, activity{"adafactor", phase::update, {}});
    this->template state<float>(ctx, means_, squares_);
    if (options.beta1 != 0) this->template state<float>(ctx, updates_, this->params_.total_size());
  }
  template <class F>
  void for_spans(const F& f) {
    float* means = static_cast<float*>(means_.data());
    float* updates = updates_ ? static_cast<float*>(updates_.data()) : nullptr;
    for (const auto& e : this->params_.all()) {
      const auto& p = *e.param;
      factored_span<T, G> s{{nullptr, nullptr, p.size(), e.first, e.settings.lr, e.settings.weight_decay},
                            1,
                            0,
                            0,
                            means,
                            nullptr,
                            updates == nullptr ? nullptr : updates + e.first};
      if (p.is_matrix()) {
        s.columns = p.extent(p.rank() - 1), s.rows = p.extent(p.rank() - 2);
        s.matrices = p.size() / (s.rows * s.columns);
        s.column_means = means + s.matrices * s.rows;
      }
      f(e, s);
      means += squares_of(p);
    }
  }

  index_t squares_ = 0, widest_ = 0;
  buffer<D> means_, updates_, scratch_;
  std::vector<factored_span<T, G>> spans_;
};

template <class Model, class Options = adafactor_options, class... Settings>
adafactor(Model&, Options = {}, const Settings&...)
    -> adafactor<typename model_traits<Model>::value_type, typename model_traits<Model>::device,
                 typename model_traits<Model>::gradient_value_type>;

}  // namespace gradus
