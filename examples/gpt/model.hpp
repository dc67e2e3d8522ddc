#pragma once
// A GPT, from top to bottom. The blocks are gradus::nn::block: read nn/transformer.hpp for what is inside one.

#include <array>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <gradus/gradus.hpp>

#include "architecture.hpp"

namespace gpt {

/// The sizes of a model, fixed when it is compiled.
struct config {
  static constexpr const char* name() { return "gpt"; }
  static constexpr const char* title() { return "GPT"; }

  gr::index_t layers;
  gr::index_t heads;
  gr::index_t width;
  gr::index_t context;      ///< longest sequence
  gr::index_t vocabulary;   ///< token ids 0 .. vocabulary-1
  gr::index_t experts = 0;  ///< MLPs of a block; a token takes a few of them; 0: one MLP for all tokens
  gr::index_t experts_per_token = 0;

  /// Hidden features of one expert; a token's experts together are at least as wide as a dense MLP.
  constexpr gr::index_t expert_features() const { return (4 * width / experts_per_token + 31) / 32 * 32; }
  /// Parameters of the experts that a token does not take.
  constexpr gr::index_t unused_parameters() const {
    return experts == 0 ? 0 : layers * (experts - experts_per_token) * 2 * width * expert_features();
  }
  /// Rows of the token table.
  constexpr gr::index_t padded_vocabulary() const { return padded_rows(vocabulary); }
  /// The sizes by the names of their flags.
  auto named() const {
    std::vector<std::pair<const char*, gr::index_t>> all{
        {"layers", layers}, {"heads", heads}, {"width", width}, {"context", context}, {"vocabulary", vocabulary}};
    if (experts > 0) all.insert(all.end(), {{"experts", experts}, {"experts-per-token", experts_per_token}});
    return all;
  }
};

template <class X, config C>
struct block_of {
  using type = gr::nn::block<X, C.width, C.heads, C.layers>;
};
template <class X, config C>
  requires(C.experts > 0)
struct block_of<X, C> {
  using experts = gr::nn::mlp_experts<X, C.experts, C.width, C.expert_features(), C.layers>;
  using type = gr::nn::mixture_block<X, C.width, C.heads, C.experts, C.experts_per_token, C.layers, experts>;
};

/// Radford et al. 2019 (GPT-2): token and position embeddings, pre-norm blocks, a final norm, and a head that shares
/// the token table. Its blocks may have mixtures of experts.
/// @tparam X gradus::on<device, precision>
template <class X, config C>
struct model {
  using device = typename X::device;
  static constexpr gr::index_t context = C.context, vocabulary = C.vocabulary;
  /// Keys and values of `Texts` texts, for generation.
  template <gr::index_t Texts>
  using cache = gr::nn::key_value_cache<X, C.layers, Texts, C.heads, C.context, C.width / C.heads>;

  gr::nn::embedding<X, C.padded_vocabulary(), C.width> tokens;
  gr::param<X, C.context, C.width> positions;
  std::array<typename block_of<X, C>::type, C.layers> blocks;
  gr::nn::layer_norm<X, C.width> norm;
  double dropout = 0;
  gr::region_schedule regions;  ///< which blocks keep what for backward; all of it unless set
  GRADUS_MEMBERS(tokens, positions, blocks, norm)

  /// Token ids [B, T] -> embeddings [B, T, width]. T is the model's context, or less, unless `rows` has documents of no
  /// more; B and T may be bounds.
  template <class Rows = gr::nn::whole_rows>
  constexpr auto embedded(const auto& ids, [[maybe_unused]] const Rows& rows = {}) const {
    constexpr gr::index_t time = gr::shape_of<decltype(ids)>::extent_in_type(1);
    if constexpr (gr::nn::is_packed<Rows>)
      return tokens(ids) + gr::embedding(gr::watch(rows.positions, ids), positions);
    else if constexpr (time == C.context) return tokens(ids) + positions;
    else return tokens(ids) + gr::slice<0, time>(gr::watch(positions, ids), 0, ids.extent(1));
  }
  /// x [B, T, width] -> the same, after all blocks. With experts, x and their auxiliary loss.
  constexpr auto through_blocks(auto x, const auto& rows) const {
    return gr::chain(blocks, std::move(x), regions,
                     [this, rows](const auto& block, auto v) { return block(std::move(v), dropout, rows); });
  }
  /// Token ids [B, T] -> what the head sees, [B, T, width].
  template <class Rows = gr::nn::whole_rows>
  constexpr auto hidden(const auto& ids, const Rows& rows = {}) const {
    if constexpr (C.experts > 0) return std::get<0>(hidden_and_auxiliary(ids, rows));
    else return norm(through_blocks(gr::dropout(embedded(ids, rows), dropout), rows));
  }
  /// The same, and the auxiliary loss of the experts.
  constexpr auto hidden_and_auxiliary(const auto& ids, const auto& rows) const {
    auto x = gr::dropout(embedded(ids, rows), dropout);
    auto zero = gr::nn::no_auxiliary_loss(x);
    auto [y, auxiliary] = through_blocks(std::tuple{std::move(x), std::move(zero)}, rows);
    return std::tuple{norm(std::move(y)), std::move(auxiliary)};
  }
  /// The same for T new tokens that follow those in the cache, of which the first `count` are real; no dropout.
  template <class Ids, class Cache>
  auto hidden(const Ids& ids, Cache& past, gr::index_t count) const {
    auto x = tokens(ids) + gr::embedding(past.template positions<Ids::shape::extent(1)>(), positions);
    for (gr::index_t i = 0; i < C.layers; ++i) x = blocks[i](std::move(x), past.layer(i, count));
    past.advance(count);
    return norm(std::move(x));
  }
  /// [..., width] -> logits [..., padded vocabulary].
  constexpr auto head(const auto& x) const { return gr::matmul<gr::transpose{.b = true}>(x, tokens.weight); }
  /// Token ids [B, T] -> logits [B, T, padded vocabulary].
  constexpr auto operator()(const auto& ids) const { return head(hidden(ids)); }
  /// Mean cross-entropy, in nats, of predicting `targets` [B, T]. The logits are never there as a whole.
  template <class Rows = gr::nn::whole_rows>
  constexpr auto loss(const auto& ids, const auto& targets, const Rows& rows = {}) const {
    return gr::linear_cross_entropy<C.vocabulary>(hidden(ids, rows), tokens.weight, targets);
  }
  /// With experts: that loss and their auxiliary loss. Training minimises the sum.
  template <class Rows = gr::nn::whole_rows>
  constexpr auto losses(const auto& ids, const auto& targets, const Rows& rows = {}) const
    requires(C.experts > 0)
  {
    auto [x, auxiliary] = hidden_and_auxiliary(ids, rows);
    return std::tuple{gr::linear_cross_entropy<C.vocabulary>(std::move(x), tokens.weight, targets),
                      std::move(auxiliary)};
  }
  /// Of each block, the load of each expert in the latest step: its share of the tokens' choices.
  auto expert_load() const
    requires(C.experts > 0)
  {
    return gpt::expert_load(blocks, [](const auto& block) -> const auto& { return block.mixture; });
  }
};

template <>
struct architecture<config> {
  template <class X, config C>
  using model = gpt::model<X, C>;
};

}  // namespace gpt
