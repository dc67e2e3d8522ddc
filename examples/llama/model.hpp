#pragma once
// A Llama or one of its relatives, from top to bottom. The blocks are gradus::nn::llama_block: read nn/llama.hpp for
// what is inside one, and config.hpp for what the members of the family have.

#include <array>
#include <cmath>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include <gradus/gradus.hpp>

#include "../gpt/architecture.hpp"
#include "config.hpp"
#include "settings.hpp"

namespace llama {

/// Touvron et al. 2023 (LLaMA), with the shared keys of Llama 2 and the scaled rotary positions of Llama 3: token
/// embeddings, blocks, a final norm, and a head. C.kind() says what is different.
/// @tparam X gradus::on<device, precision>
template <class X, config C>
struct model {
  using device = typename X::device;
  using table = gr::nn::embedding<X, C.padded_vocabulary(), C.width>;
  static constexpr gr::index_t context = C.context, vocabulary = C.vocabulary;
  static constexpr gr::nn::llama_kind parts{.head = C.head(),
                                            .biases = C.biases > 0,
                                            .projection_bias = C.biases > 1,
                                            .head_norms = C.kind().head_norms,
                                            .branch_norms = C.kind().branch_norms,
                                            .gelu = C.kind().gelu,
                                            .experts = C.experts,
                                            .experts_per_token = C.experts_per_token};
  using block = gr::nn::llama_block<X, C.width, C.heads, C.kv_heads, C.hidden, C.layers, parts>;
  /// Keys and values of `Texts` texts, for generation.
  template <gr::index_t Texts>
  using cache = gr::nn::key_value_cache<X, C.layers, Texts, C.kv_heads, C.context, C.head()>;

  table tokens;
  std::array<block, C.layers> blocks;
  gr::nn::rms_norm<X, C.width> norm;
  std::conditional_t<C.tied == 1, std::tuple<>, table> output;  ///< the head's table, if it has its own
  gr::nn::llama_settings settings = new_settings(C.kind());
  double dropout = 0;
  gr::region_schedule regions;  ///< which blocks keep what for backward; all of it unless set
  GRADUS_MEMBERS(tokens, blocks, norm, output)

  /// The settings, by the names that files have for them.
  static void for_each_setting(auto& net, const auto& f) { visit_settings(net.settings, f); }
  /// What is wrong with the settings; see llama::wrong_setting().
  std::string wrong_setting() const { return llama::wrong_setting(settings, C.kind()); }

  /// Token ids [B, T] -> embeddings [B, T, width]. T is the model's context, or less; B and T may be bounds.
  constexpr auto embedded(const auto& ids) const {
    if constexpr (C.kind().scaled) return tokens(ids) * gr::nn::detail::square_root(static_cast<double>(C.width));
    else return tokens(ids);
  }
  /// x [B, T, width], and with experts their auxiliary loss -> the same, after all blocks.
  constexpr auto through_blocks(auto x, const auto& rows) const {
    return gr::chain(blocks, std::move(x), regions, [this, rows](const block& one, auto v) {
      return one(std::move(v), settings.layer(static_cast<gr::index_t>(&one - blocks.data())), dropout, rows);
    });
  }
  /// Token ids [B, T] -> what the head sees, [B, T, width].
  template <class Rows = gr::nn::whole_rows>
  constexpr auto hidden(const auto& ids, const Rows& rows = {}) const {
    if constexpr (C.experts > 0) return std::get<0>(hidden_and_auxiliary(ids, rows));
    else return norm(through_blocks(gr::dropout(embedded(ids), dropout), rows), settings.norm_eps);
  }
  /// The same, and the auxiliary loss of the experts.
  constexpr auto hidden_and_auxiliary(const auto& ids, const auto& rows) const {
    auto x = gr::dropout(embedded(ids), dropout);
    auto zero = gr::nn::no_auxiliary_loss(x);
    auto [y, auxiliary] = through_blocks(std::tuple{std::move(x), std::move(zero)}, rows);
    return std::tuple{norm(std::move(y), settings.norm_eps), std::move(auxiliary)};
  }
  /// T new token ids [B, T], which follow the tokens in the cache -> [B, T, width]; the first `count` are real. No
  /// dropout.
  auto hidden(const auto& ids, auto& past, gr::index_t count) const {
    auto x = embedded(ids);
    for (gr::index_t i = 0; i < C.layers; ++i) x = blocks[i](std::move(x), past.layer(i, count), settings.layer(i));
    past.advance(count);
    return norm(std::move(x), settings.norm_eps);
  }
  /// The table of the head, [padded vocabulary, width].
  constexpr const auto& head_table() const {
    if constexpr (C.tied == 1) return tokens.weight;
    else return output.weight;
  }
  /// [..., width] -> logits [..., padded vocabulary].
  constexpr auto head(const auto& x) const {
    auto logits = gr::matmul<gr::transpose{.b = true}>(x, head_table());
    if constexpr (C.kind().caps_logits) return gr::tanh(std::move(logits) / settings.logit_cap) * settings.logit_cap;
    else return logits;
  }
  /// Token ids [B, T] -> logits [B, T, padded vocabulary].
  constexpr auto operator()(const auto& ids) const { return head(hidden(ids)); }
  /// Mean cross-entropy, in nats, of predicting `targets` [B, T]. The logits are never there as a whole, unless they
  /// are capped.
  template <class Rows = gr::nn::whole_rows>
  constexpr auto loss(const auto& ids, const auto& targets, const Rows& rows = {}) const {
    return loss_of(hidden(ids, rows), targets);
  }
  /// With experts: that loss and their auxiliary loss. Training minimises the sum.
  template <class Rows = gr::nn::whole_rows>
  constexpr auto losses(const auto& ids, const auto& targets, const Rows& rows = {}) const
    requires(C.experts > 0)
  {
    auto [x, auxiliary] = hidden_and_auxiliary(ids, rows);
    return std::tuple{loss_of(std::move(x), targets), std::move(auxiliary)};
  }
  /// Of each block, the load of each expert in the latest step: its share of the tokens' choices.
  auto expert_load() const
    requires(C.experts > 0)
  {
    return gpt::expert_load(blocks, [](const block& one) -> const auto& { return one.mlp; });
  }

 private:
  constexpr auto loss_of(auto x, const auto& targets) const {
    if constexpr (C.kind().caps_logits) return gr::cross_entropy<C.vocabulary>(head(std::move(x)), targets);
    else return gr::linear_cross_entropy<C.vocabulary>(std::move(x), head_table(), targets);
  }
};

}  // namespace llama

template <>
struct gpt::architecture<llama::config> {
  template <class X, llama::config C>
  using model = llama::model<X, C>;
};
