#pragma once
// Adafactor: AdamW's mean of squares, factored into rows and columns.

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "../core/config.hpp"
#include "../core/math.hpp"
#include "optimizer.hpp"

namespace gradus {

/// Settings of adafactor, with the defaults of Hugging Face's Adafactor.
struct adafactor_options {
  double lr = 0;                ///< 0: the relative step min(1e-2, 1 / sqrt(t))
  bool warmup = false;          ///< the relative step is min(1e-6 t, 1 / sqrt(t))
  bool scale_parameter = true;  ///< steps are multiplied by the parameter's root mean square, at least eps2
  double eps1 = 1e-30;          ///< added to squared gradients
  double eps2 = 1e-3;
  double clip_threshold = 1;  ///< the largest root mean square of an update
  double decay_rate = -0.8;   ///< the mean of squares has beta = 1 - t^decay_rate
  double beta1 = 0;           ///< of the mean of updates; 0: no such state
  double weight_decay = 0;    ///< on matrices only, unless param_settings say otherwise

  struct tensor_rule {
    double lr, weight_decay;
  };
  /// Learning rate and weight decay before a tensor's own factors multiply them.
  GRADUS_HD tensor_rule rule() const { return {lr == 0 ? 1.0 : lr, weight_decay}; }
  /// Rates of a tensor of `size` values, from the sums of squares of its values and of its updates.
  GRADUS_HD step_rates rates(const tensor_step& s, index_t size, double values, double updates) const {
    const auto larger = [](double a, double b) { return a < b ? b : a; };
    double rate = s.lr;
    if (lr == 0) {
      const double most = warmup ? 1e-6 * s.t : 1e-2, decayed = 1 / math::sqrt(s.t);
      rate *= decayed < most ? decayed : most;
    }
    const auto n = static_cast<double>(size);
    if (scale_parameter) rate *= larger(eps2, math::sqrt(values / n));
    const double divisor = larger(1.0, math::sqrt(updates / n) / clip_threshold);
    return {static_cast<float>(1 - s.weight_decay * rate), static_cast<float>(rate / divisor)};
  }
};

/// One tensor of adafactor's kernel: `matrices` of rows x columns with a mean of squares for each row and column; or,
/// if `rows` is 0, a vector with one for each element.
template <class T, class G>
struct factored_span : update_span<T, G> {
  index_t matrices, rows, columns;
  float *row_means, *column_means;  ///< of a vector: the means of its elements, and null
  float* update;                    ///< the mean of updates; null: no such state
};

namespace op::inline GRADUS_BUILD {
/// One step of Adafactor on a list of factored_spans.
struct adafactor_step {
  static constexpr index_t most_parts = 64;  ///< the most parts that the rows of a matrix are cut into

  const adafactor_options& options;  ///< the optimizer's own

  /// Doubles of scratch for the largest tensor: column sums of each part, and three sums of each part.
  static constexpr index_t scratch(index_t columns) { return most_parts * (columns + 3) + columns; }
};
}  // namespace op::inline GRADUS_BUILD

/// Adafactor (Shazeer and Stern 2018, as in Hugging Face's transformers): squared gradients g^2 + eps1 have running
/// means by row (R) and by column (C) of the last two axes; the update g / sqrt(R C / mean R) is divided by max(1, RMS
/// / clip_threshold) and multiplied by the rate. Vectors (see is_matrix) have a mean for each element. State: 4 (r + c)
/// / (r c) bytes a parameter of an r x c matrix, and 4 more with beta1. Of param_pieces, it takes whole parameters, and
/// throws error for others.
/// @tparam T type that parameters are stored in; not double
/// @tparam G type that their gradients accumulate in
template <class T, class D, class G = T>
class adafactor : public optimizer_with<adafactor_options, T, D, G> {
  using base = optimizer_with<adafactor_options, T, D, G>;

 public:
  static constexpr bool needs_whole_parameters = true;
  using base::base;
  using base::options;  ///< may change between steps, except whether beta1 is 0

  /// Updates every parameter that has a gradient, then frees the gradients. The first step allocates the state in
  /// `ctx`.
  GRADUS_OF_BUILD constexpr void step(context<D>& ctx) {
    make_states(ctx);
    this->prepare(ctx);
    const index_t n = this->params_.total_size();
    const typename context<D>::running now(
        ctx, activity{"adafactor", phase::update, {20 * n, n * (3 * sizeof(G) + 2 * sizeof(T)), n * sizeof(T)}});
    double* const scratch = this->template scratch<double>(ctx, scratch_, op::adafactor_step::scratch(sizes_.widest));
    if constexpr (D::computes) {
      spans_.clear();
      for_spans([&](const auto& e, factored_span<T, G> s) {
        if (!e.param->has_gradient()) return;
        static_cast<update_span<T, G>&>(s) = this->params_.span(e, this->missed());
        spans_.push_back(s);
      });
      kernel<op::adafactor_step, D>::forward(ctx, op::adafactor_step{options}, spans_, this->inputs(), scratch);
    }
    this->finish(ctx);
  }

  /// Calls f(named_state) for every state of every parameter: exp_avg_sq_row and exp_avg_sq_col, or exp_avg_sq, and
  /// exp_avg. Missing states are allocated in `ctx`.
  template <class Model, class F>
  void for_each_state(context<D>& ctx, const Model& model, const F& f) {
    make_states(ctx);
    std::vector<factored_span<T, G>> all;
    for_spans([&](const auto&, const factored_span<T, G>& s) { all.push_back(s); });
    std::size_t next = 0;
    for (const std::string& name : this->params_.names(model)) {
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
  // Values in the means of a parameter's squares.
  template <class Param>
  static constexpr index_t squares_of(const Param& p) {
    if (!p.is_matrix()) return p.size();
    const index_t columns = p.extent(p.rank() - 1), rows = p.extent(p.rank() - 2);
    return p.size() / (rows * columns) * (rows + columns);
  }
  struct sizes {
    index_t squares = 0, widest = 0;
  };
  constexpr sizes count() const {
    static_assert(std::is_same_v<compute_type<T>, float>, "adafactor(model): its step is made in float, not in double");
    sizes all;
    for (const auto& e : this->params_.all()) {
      this->params_.check_whole(e, "adafactor");
      all.squares += squares_of(*e.param);
      if (e.param->is_matrix()) all.widest = std::max(all.widest, e.param->extent(e.param->rank() - 1));
    }
    return all;
  }
  constexpr void make_states(context<D>& ctx) {
    const typename context<D>::running now(ctx, activity{"adafactor", phase::update, {}});
    this->template make_state<float>(ctx, means_, sizes_.squares);
    if (options.beta1 != 0) this->template make_state<float>(ctx, updates_, this->params_.total_size());
  }
  template <class F>
  void for_spans(const F& f) {
    float* means = static_cast<float*>(means_.data());
    float* updates = updates_ ? static_cast<float*>(updates_.data()) : nullptr;
    for (const auto& e : this->params_.all()) {
      const auto& p = *e.param;
      factored_span<T, G> s{{nullptr, nullptr, p.size(), e.first, e.draw, e.settings.lr, e.settings.weight_decay},
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

  sizes sizes_ = count();
  buffer<D> means_, updates_, scratch_;
  std::vector<factored_span<T, G>> spans_;
};

template <class Model, class Options = adafactor_options, class... Settings>
adafactor(Model&, Options = {}, const Settings&...)
    -> adafactor<typename model_traits<Model>::value_type, typename model_traits<Model>::device,
                 typename model_traits<Model>::gradient_value_type>;

}  // namespace gradus
