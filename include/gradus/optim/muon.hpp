#pragma once
#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <string_view>
#include <type_traits>
#include <vector>

#include "../core/config.hpp"
#include "adamw.hpp"

namespace gradus {

/// Settings of muon; the defaults are those of its author.
struct muon_options {
  double lr = 0.02;
  double momentum = 0.95;
  double weight_decay = 0;
  bool nesterov = true;
  /// For the parameters that are not orthogonalised.
  adamw_options adamw = {.lr = 3e-4, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-10, .weight_decay = 0};
};

/// One matrix as muon's kernel sees it.
template <class T, class G>
struct matrix_span : update_span<T, G> {
  index_t rows, columns;
  float* momentum;
};

namespace op::inline GRADUS_BUILD {
/// One step of Muon on a list of matrix_spans.
struct muon_step {
  const muon_options& options;  ///< the optimizer's own

  /// Floats of scratch for a matrix: the update twice, and two squares of the shorter side, each a part().
  static constexpr index_t scratch(index_t rows, index_t columns) {
    const index_t side = rows < columns ? rows : columns;
    return 2 * part(rows * columns) + 2 * part(side * side);
  }
  /// Floats from one matrix in the scratch to the next: each begins where memory may begin, aligned as products like
  /// it.
  static constexpr index_t part(index_t size) { return (size + 63) / 64 * 64; }
};
}  // namespace op::inline GRADUS_BUILD

/// Muon (Jordan 2024), for hidden matrices: m = lerp(m, g, 1 - momentum); the update is g (or with Nesterov lerp(g, m,
/// momentum)) made orthogonal by five Newton-Schulz iterations, times sqrt(max(1, outputs / inputs)), where weights are
/// [inputs, outputs]. The iterations run in float. A matrix is a parameter of two axes here. Embeddings and heads
/// should be left to AdamW, by settings; vectors always are. All other parameters take steps of AdamW. 4 bytes of state
/// a parameter of a matrix, and 8 of others. @tparam T what parameters are stored in; not double @tparam G what their
/// gradients accumulate in
template <class T, class D, class G = T>
class muon : public optimizer<T, D, G> {
 public:
  muon_options options;  ///< may be changed between steps (a schedule sets `lr` and `adamw.lr`)

  template <class Model>
  constexpr explicit muon(Model& model, muon_options o = {}) : optimizer<T, D, G>(model), options(o) {
    find_places();
  }
  /// @param settings_of param_info -> param_settings: which matrices are not to be orthogonalised, and which parameters
  /// learn or decay otherwise
  template <class Model, class Settings>
  constexpr muon(Model& model, muon_options o, const Settings& settings_of)
      : optimizer<T, D, G>(model, settings_of), options(o) {
    find_places();
  }

  /// Not with a number: settings are named.
  template <class Model, std::convertible_to<double> Number, class... Settings>
  constexpr muon(Model& model, Number, const Settings&...) : muon(model) {
    static_assert(detail::settings_are_named<Number>, "optimizer(model, 1e-3): settings are named; write {.lr = 1e-3}");
  }

  /// Updates every parameter that has a gradient, then forgets the gradients. State is made in `ctx` in the first step.
  GRADUS_OF_BUILD constexpr void step(context<D>& ctx) {
    const rule_states<T, float, 2> moments = make_states(ctx);
    this->prepare(ctx);
    const index_t n = this->params_.total_size();
    index_t flops = 14 * n;
    for (index_t i = 0; i < places_.size(); ++i)
      if (places_[i].orthogonal) {
        const auto& p = *this->params_.all()[i].param;
        const index_t side = std::min(p.extent(0), p.extent(1));
        flops += 5 * (4 * side * p.size() + 2 * side * side * side);
      }
    const typename context<D>::running now(
        ctx, activity{"muon", phase::update, {flops, n * (sizeof(T) + sizeof(G) + 4), n * (sizeof(T) + 4)}});
    // Made once: a step that asks for no memory can be captured as a graph and be sent again as it is.
    if (scratch_ > 0 && !scratch_memory_)
      scratch_memory_ = buffer<D>(ctx, scratch_ * sizeof(float), category::temporary);
    if constexpr (D::computes) {
      matrices_.clear();
      others_.clear();
      for (index_t i = 0; i < places_.size(); ++i) {
        const auto& e = this->params_.all()[i];
        if (!e.param->has_gradient()) continue;
        update_span<T, G> s = this->params_.span(e, this->missed());
        // The others are numbered as their moments lie, and matrices after them, so that no two elements share a draw.
        s.first = places_[i].first + (places_[i].orthogonal ? adamw_size_ : 0);
        if (!places_[i].orthogonal) others_.push_back(s);
        else
          matrices_.push_back(
              {s, e.param->extent(0), e.param->extent(1), static_cast<float*>(momentum_.data()) + places_[i].first});
      }
      const step_inputs in = this->inputs();
      if (!matrices_.empty())
        kernel<op::muon_step, D>::forward(ctx, op::muon_step{options}, matrices_, in,
                                          static_cast<float*>(scratch_memory_.data()));
      kernel<op::element_step, D>::forward(ctx, others_, options.adamw, moments, in);
    }
    this->finish(ctx);
  }

  /// Calls f(named_state) for every state of every parameter: momentum_buffer, or exp_avg and exp_avg_sq. States that
  /// are not there yet are made in `ctx`.
  template <class Model, class F>
  void for_each_state(context<D>& ctx, const Model& model, const F& f) {
    const auto moments = make_states(ctx);
    index_t next = 0;
    for_each_param(model, [&](std::string_view name, const auto& p) {
      const place& at = places_[next++];
      if (at.orthogonal) {
        f(named_state<D>{name, "momentum_buffer", "f32", p.size(), static_cast<float*>(momentum_.data()) + at.first});
        return;
      }
      for (std::size_t k = 0; k < 2; ++k)
        f(named_state<D>{name, adamw_options::states[k], "f32", p.size(), moments.at[k] + at.first});
    });
  }

 private:
  struct place {
    bool orthogonal;
    index_t first;  // among those of its kind
  };
  constexpr void find_places() {
    static_assert(std::is_same_v<compute_type<T>, float>, "muon(model): its step is made in float, not in double");
    for (const auto& e : this->params_.all()) {
      const bool orthogonal = e.param->rank() == 2 && e.settings.orthogonal;
      index_t& size = orthogonal ? momentum_size_ : adamw_size_;
      places_.push_back({orthogonal, size});
      size += e.param->size();
      if (orthogonal) scratch_ = std::max(scratch_, op::muon_step::scratch(e.param->extent(0), e.param->extent(1)));
    }
  }
  constexpr rule_states<T, float, 2> make_states(context<D>& ctx) {
    const typename context<D>::running now(ctx, activity{"muon", phase::update, {}});
    rule_states<T, float, 2> moments;
    if (momentum_size_ > 0) this->template state<float>(ctx, momentum_, momentum_size_);
    if (adamw_size_ > 0)
      for (std::size_t k = 0; k < 2; ++k) moments.at[k] = this->template state<float>(ctx, moments_[k], adamw_size_);
    return moments;
  }

  std::vector<place> places_;
  index_t momentum_size_ = 0, adamw_size_ = 0, scratch_ = 0;
  buffer<D> momentum_, scratch_memory_;
  std::array<buffer<D>, 2> moments_;
  std::vector<matrix_span<T, G>> matrices_;
  std::vector<update_span<T, G>> others_;
};

template <class Model, class Options = muon_options, class... Settings>
muon(Model&, Options = {}, const Settings&...)
    -> muon<typename model_traits<Model>::value_type, typename model_traits<Model>::device,
            typename model_traits<Model>::gradient_value_type>;

}  // namespace gradus
