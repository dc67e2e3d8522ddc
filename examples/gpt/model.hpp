#pragma once
// A GPT, from top to bottom. The blocks are gradus::nn::block: read nn/transformer.hpp for what is inside one.

#include <gradus/gradus.hpp>

namespace gpt {

namespace gr = gradus;

/// The sizes of a model, fixed when it is compiled.
struct config {
  gr::index_t layers;
  gr::index_t heads;
  gr::index_t width;
  gr::index_t context;     ///< longest sequence
  gr::index_t vocabulary;  ///< token ids 0 .. vocabulary-1
  /// Rows of the token table: rounded up to a multiple of 64, so that matrix products meet no odd edge.
  constexpr gr::index_t padded_vocabulary() const { return (vocabulary + 63) / 64 * 64; }
};

/// Radford et al. 2019 (GPT-2): token and position embeddings, pre-norm blocks, a final norm, and a head that shares
/// the token table.
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
  std::array<gr::nn::block<X, C.width, C.heads, C.layers>, C.layers> blocks;
  gr::nn::layer_norm<X, C.width> norm;
  double dropout = 0;
  gr::region_schedule regions;  ///< which blocks keep what for backward; all of it unless set
  GRADUS_MEMBERS(tokens, positions, blocks, norm)

  /// Token ids [B, T] -> embeddings [B, T, width]. T is the model's context, or less; B and T may be bounds.
  constexpr auto embedded(const auto& ids) const {
    constexpr gr::index_t time = gr::shape_of<decltype(ids)>::extent_in_type(1);
    if constexpr (time == C.context) return tokens(ids) + positions;
    else return tokens(ids) + gr::slice<0, time>(gr::watch(positions, ids), 0, ids.extent(1));
  }
  /// Token ids [B, T] -> what the head sees, [B, T, width].
  constexpr auto hidden(const auto& ids) const {
    auto x = gr::dropout(embedded(ids), dropout);
    x = gr::chain(blocks, std::move(x), regions,
                  [this](const auto& block, auto v) { return block(std::move(v), dropout); });
    return norm(std::move(x));
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
  constexpr auto loss(const auto& ids, const auto& targets) const {
    return gr::linear_cross_entropy<C.vocabulary>(hidden(ids), tokens.weight, targets);
  }
};

}  // namespace gpt
