#pragma once
// A mixture of experts in place of an MLP: each token goes to the few experts that a router gives the largest
// probabilities (Shazeer et al. 2017, arXiv 1701.06538).

#include <algorithm>
#include <tuple>
#include <type_traits>
#include <utility>

#include "../core/config.hpp"
#include "../ops/attention/cached.hpp"
#include "../ops/dispatch/dispatch.hpp"
#include "../ops/dropout/dropout.hpp"
#include "../ops/elementwise/arithmetic.hpp"
#include "../ops/elementwise/functions.hpp"
#include "../ops/grouped_matmul/grouped_matmul.hpp"
#include "../ops/groups/groups.hpp"
#include "../ops/logsumexp/logsumexp.hpp"
#include "../ops/reduce/reduce.hpp"
#include "../ops/softmax/softmax.hpp"
#include "../ops/sort/sort.hpp"
#include "../tensor/state.hpp"
#include "transformer.hpp"

namespace gradus::nn {

/// The settings of a mixture. They are not parameters, and may change between steps.
struct mixture_options {
  /// The gates of a token add up to 1 (Mixtral); else they are its probabilities (Switch), the default for one expert a
  /// token, whose gate would always be 1 and teach the router nothing.
  bool renormalise = true;
  double balance = 0.01;  ///< factor of the balance loss (alpha in arXiv 2101.03961)
  double z = 0.001;       ///< factor of the router's z loss (ST-MoE, arXiv 2202.08906)
  /// An expert takes at most this times the mean number of tokens, and drops others; 0: any number.
  double capacity = 0;
};

/// MLPs without biases, one for each expert: rows [N, Width] in the groups of `offsets` -> [N, Width].
template <class X, index_t Experts, index_t Width, index_t Hidden, index_t Depth = 1>
struct mlp_experts {
  param<X, Experts, Width, Hidden> up{start::drawn, 1, fans{Width, Hidden}};
  param<X, Experts, Hidden, Width> down{start::drawn, detail::residual_scale(Depth), fans{Hidden, Width}};
  GRADUS_MEMBERS(up, down)

  GRADUS_OF_BUILD constexpr auto operator()(auto&& rows, const auto& offsets) const {
    auto hidden = gelu(grouped_matmul(std::forward<decltype(rows)>(rows), up, offsets));
    return grouped_matmul(std::move(hidden), down, offsets);
  }
};

/// MLPs with SwiGLU, down(silu(gate(x)) * up(x)), one for each expert, without biases, as in Mixtral: rows [N, Width]
/// in the groups of `offsets` -> [N, Width].
template <class X, index_t Experts, index_t Width, index_t Hidden, index_t Depth = 1>
struct swiglu_experts {
  param<X, Experts, Width, Hidden> gate{start::drawn, 1, fans{Width, Hidden}}, up{start::drawn, 1, fans{Width, Hidden}};
  param<X, Experts, Hidden, Width> down{start::drawn, detail::residual_scale(Depth), fans{Hidden, Width}};
  GRADUS_MEMBERS(gate, up, down)

  GRADUS_OF_BUILD constexpr auto operator()(auto&& rows, const auto& offsets) const {
    auto hidden = swiglu(grouped_matmul(rows, gate, offsets), grouped_matmul(rows, up, offsets));
    return grouped_matmul(std::move(hidden), down, offsets);
  }
};

namespace detail {
template <class P>
struct router_precision : precision<typename P::store, typename P::reduce, compute_type<typename P::reduce>,
                                    typename P::reduce, typename P::gradient> {
  static constexpr bool trains = P::trains;
};
/// The X of a router: it computes in the policy's `reduce`, float as a rule, because softmax magnifies errors.
template <class X>
using for_router = on<typename X::device, router_precision<typename X::precision>>;
template <index_t PerToken, index_t Experts>
inline constexpr bool experts_per_token_exist = PerToken >= 1 && PerToken <= Experts;
}  // namespace detail

/// y = sum of g_e expert_e(x) over the PerToken experts e of largest probability p = softmax(x router), for each row of
/// x [..., Width]; the gates g are these probabilities, renormalised or not. The auxiliary loss is
/// balance * Experts * sum_e f_e mean(p_e) + z * mean(logsumexp(x router)^2), where f_e is the share of expert e in the
/// choices, before any is dropped; it is to be added to the training loss.
///
/// A layer's result carries the auxiliary loss, because a value can leave a checkpoint region in no other way, and
/// because what is added to the loss has its scale, whatever the loss scale and the accumulation of gradients.
/// @tparam Layer the experts: (rows, offsets) -> rows
template <class X, index_t Width, index_t Experts, index_t PerToken,
          class Layer = mlp_experts<X, Experts, Width, 4 * Width>>
struct mixture {
  static_assert(detail::experts_per_token_exist<PerToken, Experts>,
                "mixture<X, Width, Experts, PerToken>: PerToken must be at least 1 and at most Experts");
  param<detail::for_router<X>, Width, Experts> router;
  Layer experts;
  state<on<typename X::device>, Experts> load;  ///< tokens that chose each expert in the latest recorded forward
  mixture_options options{.renormalise = PerToken > 1};
  GRADUS_MEMBERS(router, experts, load)

  /// x [..., Width] -> std::tuple of y [..., Width] and the auxiliary loss [].
  GRADUS_OF_BUILD constexpr auto operator()(const auto& x) const {
    const auto rows = reshape<-1, Width>(x);
    const auto logits = gradus::linear(rows, router);
    const auto p = softmax(logits);
    auto [y, counts] = mixed(x, rows, p);
    const double choices = static_cast<double>(rows.extent(0) * PerToken);
    const auto z = logsumexp(logits);
    auto balance = sum(mean<0>(p) * counts) * (options.balance * static_cast<double>(Experts) / choices);
    return std::tuple{std::move(y), std::move(balance) + mean(z * z) * options.z};
  }
  /// y alone, for inference.
  GRADUS_OF_BUILD constexpr auto output(const auto& x) const {
    const auto rows = reshape<-1, Width>(x);
    return mixed(x, rows, softmax(gradus::linear(rows, router))).first;
  }

 private:
  constexpr auto mixed(const auto& x, const auto& rows, const auto& p) const {
    const auto [chosen, expert] = topk<PerToken>(p);
    const auto order = sort_by_group<Experts>(expert, capacity_for(rows.extent(0) * PerToken));
    load.update(rows, order.counts);
    auto dispatched = dispatch_rows(cast<typename X::compute>(rows), order.places);
    auto y = combine_rows(experts(std::move(dispatched), order.offsets), gates(chosen), order.places);
    using S = shape_of<decltype(x)>;
    return std::pair{apply(op::reshape<S>{plain(x).extents()}, std::move(y)), order.counts};
  }
  constexpr auto gates(const auto& chosen) const {
    using type = std::remove_cvref_t<decltype(chosen)>;
    return options.renormalise ? type(chosen / sum<1>(chosen, keep_axes)) : chosen;
  }
  constexpr index_t capacity_for(index_t choices) const {
    if (options.capacity <= 0) return choices;
    const double most = options.capacity * static_cast<double>(choices) / static_cast<double>(Experts);
    if (most >= static_cast<double>(choices)) return choices;
    const auto whole = static_cast<index_t>(most);
    const bool more = static_cast<double>(whole) < most * (1 - 1e-12);  // 1.1 * 100 / 10 is above 11
    return std::max<index_t>(1, more ? whole + 1 : whole);
  }
};

/// A pre-norm transformer block (GPT-2) with a mixture of experts for its MLP. It maps std::tuple{x, auxiliary loss} to
/// the same, adding its own loss: chain() carries both through the blocks, from no_auxiliary_loss(x) on.
template <class X, index_t Width, index_t Heads, index_t Experts, index_t PerToken, index_t Depth = 1,
          class Layer = mlp_experts<X, Experts, Width, 4 * Width, Depth>>
struct mixture_block {
  using norm = layer_norm<typename detail::norms_before_products<X>::type, Width>;
  norm norm1;
  nn::attention<X, Width, Heads, Depth> attention;
  norm norm2;
  nn::mixture<X, Width, Experts, PerToken, Layer> mixture;
  GRADUS_MEMBERS(norm1, attention, norm2, mixture)

  /// @param rows which positions are a document; see packed_rows
  template <class V, class L, class Rows = whole_rows>
  GRADUS_OF_BUILD constexpr std::tuple<V, L> operator()(std::tuple<V, L> from, double drop = 0,
                                                        const Rows& rows = {}) const {
    auto& [x, loss] = from;
    auto y = x + dropout(attention(norm1(x), rows), drop);
    auto [z, own_loss] = mixture(norm2(y));
    return {y + dropout(std::move(z), drop), std::move(loss) + std::move(own_loss)};
  }
  /// The block on new tokens that follow those in `past`, without dropout and loss.
  template <class T, class S, class D>
  GRADUS_OF_BUILD constexpr auto operator()(auto x, const key_value_view<T, S, D>& past) const {
    auto y = x + attention(norm1(x), past);
    return y + mixture.output(norm2(y));
  }
};

/// The auxiliary loss before the first block: 0, as a value of x's recording.
template <class X>
GRADUS_OF_BUILD constexpr auto no_auxiliary_loss(const X& x) {
  using T = compute_type<value_of_t<X>>;
  return watch(zeros<T, shape<>>(plain(x).owner()), x);
}

}  // namespace gradus::nn
