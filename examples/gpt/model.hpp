#pragma once
// A GPT, from top to bottom. The blocks are gradus::nn::block: read nn/transformer.hpp for what is inside one.

#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <gradus/gradus.hpp>

namespace gpt {

namespace gr = gradus;

/// The sizes of a model, fixed when it is compiled.
struct config {
  gr::index layers;
  gr::index heads;
  gr::index width;
  gr::index context;     ///< longest sequence
  gr::index vocabulary;  ///< token ids 0 .. vocabulary-1
  /// Rows of the token table: rounded up to a multiple of 64, so that matrix products meet no odd edge.
  constexpr gr::index padded_vocabulary() const { return (vocabulary + 63) / 64 * 64; }
};

/// Radford et al. 2019 (GPT-2): token and position embeddings, pre-norm blocks, a final norm, and a head that shares the
/// token table.
/// @tparam X gradus::on<device, precision>
template <class X, config C>
struct model {
  gr::nn::embedding<X, C.padded_vocabulary(), C.width> tokens;
  gr::param<X, C.context, C.width> positions;
  std::array<gr::nn::block<X, C.width, C.heads, C.layers>, C.layers> blocks;
  gr::nn::layer_norm<X, C.width> norm;
  double dropout = 0;
  gr::region_schedule regions;  ///< which blocks keep what for backward; all of it unless set
  GRADUS_MEMBERS(tokens, positions, blocks, norm)

  /// Token ids [B, T] -> what the head sees, [B, T, width]. T is the model's context.
  constexpr auto hidden(const auto& ids) const {
    auto x = gr::dropout(tokens(ids) + positions, dropout);
    x = gr::chain(blocks, std::move(x), regions,
                  [this](const auto& block, auto v) { return block(std::move(v), dropout); });
    return norm(std::move(x));
  }
  /// Token ids [B, T] -> logits [B, T, padded vocabulary].
  constexpr auto operator()(const auto& ids) const {
    return gr::matmul<gr::transpose{.b = true}>(hidden(ids), tokens.weight);
  }
  /// What keeps keys and values for `Batch` sequences that are written a token at a time.
  template <gr::index Batch>
  using cache = gr::nn::key_value_cache<X, C.layers, Batch, C.heads, C.context, C.width / C.heads>;

  /// The same as hidden(ids) for new tokens [B, T] behind those in the cache, of which the first `count` are real -> [B, T, width]. The cache then has
  /// them, too.
  template <gr::index Batch>
  constexpr auto hidden(const auto& ids, cache<Batch>& past, gr::index count) const {
    constexpr gr::index times = std::remove_cvref_t<decltype(ids)>::shape::extent(1);
    std::array<std::int32_t, times> at{};
    for (gr::index t = 0; t < times; ++t)
      at[t] = static_cast<std::int32_t>(std::min(past.position() + t, C.context - 1));
    auto x = tokens(ids) + gr::embedding(gr::from_host<std::int32_t, gr::shape<times>>(ids.owner(), at.data()), positions);
    for (gr::index i = 0; i < C.layers; ++i) x = blocks[i](std::move(x), past.layer(i, count));
    past.advance(count);
    return norm(std::move(x));
  }
  /// Logits [B, padded vocabulary] of the token that comes after the first `count` of `ids`, which come after those in the cache.
  template <gr::index Batch>
  constexpr auto next(const auto& ids, cache<Batch>& past, gr::index count) const {
    constexpr gr::index times = std::remove_cvref_t<decltype(ids)>::shape::extent(1);
    std::array<std::int32_t, Batch> last{};
    for (gr::index b = 0; b < Batch; ++b) last[b] = static_cast<std::int32_t>(b * times + count - 1);
    const auto rows = gr::reshape<Batch * times, C.width>(hidden(ids, past, count));
    const auto seen = gr::embedding(gr::from_host<std::int32_t, gr::shape<Batch>>(ids.owner(), last.data()), rows);
    return gr::matmul<gr::transpose{.b = true}>(seen, tokens.weight);
  }
  /// Mean cross-entropy, in nats, of predicting `targets` [B, T]. The logits are never there as a whole.
  constexpr auto loss(const auto& ids, const auto& targets) const {
    return gr::linear_cross_entropy<C.vocabulary>(hidden(ids), tokens.weight, targets);
  }
};

}  // namespace gpt
