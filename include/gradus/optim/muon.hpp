#pragma once
// Muon: orthogonalised momentum for hidden matrices, AdamW for the other parameters.

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

#include "../core/config.hpp"
#include "../core/dtype.hpp"
#include "../core/math.hpp"
#include "../core/vector.hpp"
#include "adamw.hpp"

namespace gradus {

/// Settings of muon, with its author's defaults.
struct muon_options {
  double lr = 0.02;
  double momentum = 0.95;
  double weight_decay = 0;
  bool nesterov = true;
  /// Options of AdamW, which updates the parameters that are not orthogonalised.
  adamw_options adamw = {.lr = 3e-4, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-10, .weight_decay = 0};
};

/// One matrix of muon's kernel.
template <class T, class G>
struct matrix_span : update_span<T, G> {
  index_t rows, columns;
  float* momentum;
};

namespace op::inline GRADUS_BUILD {
/// One step of Muon on a list of matrix_spans.
struct muon_step {
  const muon_options& options;  ///< the optimizer's own

  static constexpr int iterations = 5;
  static constexpr float a = 3.4445f, b = -4.7750f, c = 2.0315f;  ///< of the Newton-Schulz polynomial

  GRADUS_HD static step_rates rates(const tensor_step& s, index_t rows, index_t columns) {
    const double ratio = static_cast<double>(columns) / static_cast<double>(rows);
    return {static_cast<float>(1 - s.lr * s.weight_decay),
            static_cast<float>(s.lr * math::sqrt(1.0 < ratio ? ratio : 1.0))};
  }

  static constexpr index_t most_in_batch = 32;  ///< whose addresses fit in a kernel's parameters

  /// Matrices of one shape, of `count`, that the device orthogonalises together: as many as fit in its
  /// orthogonal_batch_bytes, at least one.
  template <class D>
  static constexpr index_t batch(index_t rows, index_t columns, index_t count) {
    return std::clamp<index_t>(D::orthogonal_batch_bytes / bytes<D>(rows, columns), 1, std::min(count, most_in_batch));
  }
  /// Bytes of scratch memory for one matrix of a batch: two updates and two squares of the shorter side in float; or
  /// two updates and a square in bf16, with extents padded() for aligned rows.
  template <class D>
  static constexpr index_t bytes(index_t rows, index_t columns) {
    constexpr bool in_float = D::orthogonal_batch_bytes == 0;
    if (!in_float) rows = padded(rows), columns = padded(columns);
    const index_t n = rows * columns, side = std::min(rows, columns);
    return in_float ? 2 * (n + side * side) * sizeof(float) : (2 * n + side * side) * sizeof(bf16);
  }
  static GRADUS_HD constexpr index_t padded(index_t extent) { return (extent + 7) / 8 * 8; }
};
}  // namespace op::inline GRADUS_BUILD

/// Muon (Jordan 2024), for hidden matrices: m = lerp(m, g, 1 - momentum); the update is g (or with Nesterov lerp(g, m,
/// momentum)) made orthogonal by five Newton-Schulz iterations, times sqrt(max(1, outputs / inputs)), where weights are
/// [inputs, outputs]. The iterations run in float on the CPU. On a GPU they run in bf16 with sums in float, matrices of
/// equal shape together, in scratch memory of up to 64 MiB, or of one matrix if that is larger. A matrix is a parameter
/// of two axes here. All other parameters take steps of AdamW; param_settings should leave embeddings and heads to it,
/// too. State: 4 bytes per matrix element, 8 per element of other parameters. Of param_pieces, it orthogonalises whole
/// matrices, and throws error for others.
/// @tparam T type that parameters are stored in; not double
/// @tparam G type that their gradients accumulate in
template <class T, class D, class G = T>
class muon : public optimizer_with<muon_options, T, D, G> {
  using base = optimizer_with<muon_options, T, D, G>;

 public:
  static constexpr bool needs_whole_parameters = true;
  using base::base;
  using base::options;

  /// Updates every parameter that has a gradient, then frees the gradients. The first step allocates the state in
  /// `ctx`.
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
    void* const scratch = this->template scratch<std::byte>(ctx, scratch_memory_, scratch_);
    if constexpr (D::computes) {
      matrices_.clear();
      others_.clear();
      for (index_t i = 0; i < places_.size(); ++i) {
        const auto& e = this->params_.all()[i];
        if (!e.param->has_gradient()) continue;
        update_span<T, G> s = this->params_.span(e, this->missed());
        s.first = places_[i].first;
        s.draw = places_[i].draw;
        if (!places_[i].orthogonal) others_.push_back(s);
        else
          matrices_.push_back(
              {s, e.param->extent(0), e.param->extent(1), static_cast<float*>(momentum_.data()) + places_[i].first});
      }
      std::sort(matrices_.begin(), matrices_.end(), [](const auto& a, const auto& b) {
        return std::tie(a.rows, a.columns, a.first) < std::tie(b.rows, b.columns, b.first);
      });
      const step_inputs in = this->inputs();
      if (!matrices_.empty()) kernel<op::muon_step, D>::forward(ctx, op::muon_step{options}, matrices_, in, scratch);
      kernel<op::element_step, D>::forward(ctx, others_, options.adamw, moments, in);
    }
    this->finish(ctx);
  }

  /// Calls f(named_state) for every state of every parameter: momentum_buffer, or exp_avg and exp_avg_sq. Missing
  /// states are allocated in `ctx`.
  template <class Model, class F>
  void for_each_state(context<D>& ctx, const Model& model, const F& f) {
    const auto moments = make_states(ctx);
    const std::vector<std::string> names = this->params_.names(model);
    for (std::size_t i = 0; i < names.size(); ++i) {
      const place& at = places_[i];
      const auto& e = this->params_.all()[i];
      const auto pass = [&](std::string_view state, float* data) {
        f(named_state<D>{names[i], state, "f32", e.param->size(), data + at.first, e.begin, e.whole});
      };
      if (at.orthogonal) pass("momentum_buffer", static_cast<float*>(momentum_.data()));
      else
        for (std::size_t k = 0; k < 2; ++k) pass(adamw_options::states[k], moments.at[k]);
    }
  }

 private:
  struct place {
    bool orthogonal;
    index_t first;  // in the states of its kind
    index_t draw;   // as entry::draw, but matrices are numbered after the others
  };
  template <class Entry>
  static constexpr bool is_orthogonal(const Entry& e) {
    return e.param->rank() == 2 && e.settings.orthogonal;
  }
  constexpr std::vector<place> find_places() {
    static_assert(std::is_same_v<compute_type<T>, float>, "muon(model): its step is made in float, not in double");
    std::vector<place> places;
    detail::vector<std::array<index_t, 2>> shapes;  // of the matrices
    index_t matrices = 0, others = 0;               // values of the whole model
    detail::vector<index_t> draws;                  // of each parameter, among the draws of its kind
    for (const auto& e : this->params_.wholes()) {
      index_t& size = is_orthogonal(e) ? matrices : others;
      draws.push_back(size);
      size += e.whole;
    }
    for (const auto& e : this->params_.all()) {
      const bool orthogonal = is_orthogonal(e);
      if (orthogonal) this->params_.check_whole(e, "muon");
      index_t& size = orthogonal ? momentum_size_ : adamw_size_;
      places.push_back({orthogonal, size, draws[e.number] + e.begin + (orthogonal ? others : 0)});
      size += e.param->size();
      if (orthogonal) shapes.push_back({e.param->extent(0), e.param->extent(1)});
    }
    std::sort(shapes.begin(), shapes.end());
    index_t alike = 0;  // matrices of the same shape so far
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      const auto [rows, columns] = shapes[i];
      alike = i > 0 && shapes[i] == shapes[i - 1] ? alike + 1 : 1;
      using step = op::muon_step;
      scratch_ = std::max(scratch_, step::batch<D>(rows, columns, alike) * step::bytes<D>(rows, columns));
    }
    return places;
  }
  constexpr rule_states<T, float, 2> make_states(context<D>& ctx) {
    const typename context<D>::running now(ctx, activity{"muon", phase::update, {}});
    rule_states<T, float, 2> moments;
    if (momentum_size_ > 0) this->template make_state<float>(ctx, momentum_, momentum_size_);
    if (adamw_size_ > 0)
      for (std::size_t k = 0; k < 2; ++k)
        moments.at[k] = this->template make_state<float>(ctx, moments_[k], adamw_size_);
    return moments;
  }

  index_t momentum_size_ = 0, adamw_size_ = 0, scratch_ = 0;
  std::vector<place> places_ = find_places();  // which counts the sizes above
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
