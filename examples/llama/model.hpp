#pragma once
// A Llama, from top to bottom. The blocks are gradus::nn::llama_block: read nn/llama.hpp for what is inside one.

#include <array>
#include <cmath>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include <gradus/gradus.hpp>

#include "../gpt/architecture.hpp"

namespace llama {

namespace gr = gradus;

/// The sizes of a model, fixed when it is compiled.
struct config {
  static constexpr const char *name = "llama", *title = "Llama";

  gr::index_t layers;
  gr::index_t heads;
  gr::index_t width;
  gr::index_t context;     ///< longest sequence
  gr::index_t vocabulary;  ///< token ids 0 .. vocabulary-1
  gr::index_t kv_heads;    ///< heads of keys and values, each for heads / kv_heads of queries
  gr::index_t hidden;      ///< features inside an MLP
  gr::index_t tied = 1;    ///< 1: the head is the token table; 0: it is a table of its own

  /// Rows of the token table.
  constexpr gr::index_t padded_vocabulary() const { return gpt::padded_rows(vocabulary); }
  /// The sizes by the names of their flags.
  constexpr auto named() const {
    return std::array<std::pair<const char*, gr::index_t>, 8>{{{"layers", layers},
                                                               {"heads", heads},
                                                               {"width", width},
                                                               {"context", context},
                                                               {"vocabulary", vocabulary},
                                                               {"kv-heads", kv_heads},
                                                               {"hidden", hidden},
                                                               {"tied", tied}}};
  }
};

/// What is wrong with the numbers of a model, by their names in a config.json; "" if nothing is.
inline std::string wrong_setting(const gr::nn::llama_settings& of) {
  const gr::rope_scaling& by = of.rope.scaling;
  const auto is_from = [](double least, double x) { return x >= least && std::isfinite(x); };
  if (!(of.norm_eps > 0 && of.norm_eps <= 1)) return "'rms_norm_eps' must be above 0 and at most 1";
  if (!is_from(1, of.rope.base)) return "'rope_theta' must be 1 or more";
  if (!is_from(1, by.factor)) return "the 'factor' of the rotary scaling must be 1 or more";
  if (!is_from(1, by.original_context)) return "'original_max_position_embeddings' must be 1 or more";
  if (!(by.low_freq_factor > 0 && by.low_freq_factor < by.high_freq_factor && std::isfinite(by.high_freq_factor)))
    return "'low_freq_factor' must be above 0 and below 'high_freq_factor'";
  return "";
}

/// Touvron et al. 2023 (LLaMA), with the shared keys of Llama 2 and the scaled rotary positions of Llama 3: token
/// embeddings, blocks, a final norm, and a head.
/// @tparam X gradus::on<device, precision>
template <class X, config C>
struct model {
  using device = typename X::device;
  using table = gr::nn::embedding<X, C.padded_vocabulary(), C.width>;
  static constexpr gr::index_t context = C.context, vocabulary = C.vocabulary;
  /// Keys and values of `Texts` texts, for generation.
  template <gr::index_t Texts>
  using cache = gr::nn::key_value_cache<X, C.layers, Texts, C.kv_heads, C.context, C.width / C.heads>;

  table tokens;
  std::array<gr::nn::llama_block<X, C.width, C.heads, C.kv_heads, C.hidden, C.layers>, C.layers> blocks;
  gr::nn::rms_norm<X, C.width> norm;
  std::conditional_t<C.tied == 1, std::tuple<>, table> output;  ///< the head's table, if it has its own
  gr::nn::llama_settings settings;
  double dropout = 0;
  gr::region_schedule regions;  ///< which blocks keep what for backward; all of it unless set
  GRADUS_MEMBERS(tokens, blocks, norm, output)

  /// The settings, by the names that files have for them.
  static void for_each_setting(auto& net, const auto& f) {
    f("norm_eps", net.settings.norm_eps);
    f("rope_base", net.settings.rope.base);
    f("rope_factor", net.settings.rope.scaling.factor);
    f("rope_low_freq_factor", net.settings.rope.scaling.low_freq_factor);
    f("rope_high_freq_factor", net.settings.rope.scaling.high_freq_factor);
    f("rope_original_context", net.settings.rope.scaling.original_context);
  }

  /// What is wrong with the settings; see llama::wrong_setting().
  std::string wrong_setting() const { return llama::wrong_setting(settings); }

  /// Token ids [B, T] -> embeddings [B, T, width]. T is the model's context, or less; B and T may be bounds.
  constexpr auto embedded(const auto& ids) const { return tokens(ids); }
  /// Token ids [B, T] -> what the head sees, [B, T, width].
  constexpr auto hidden(const auto& ids) const {
    auto x = gr::chain(blocks, gr::dropout(embedded(ids), dropout), regions,
                       [this](const auto& block, auto v) { return block(std::move(v), settings, dropout); });
    return norm(std::move(x), settings.norm_eps);
  }
  /// T new token ids [B, T], which follow the tokens in the cache -> [B, T, width]; the first `count` are real. No
  /// dropout.
  auto hidden(const auto& ids, auto& past, gr::index_t count) const {
    auto x = embedded(ids);
    for (gr::index_t i = 0; i < C.layers; ++i) x = blocks[i](std::move(x), past.layer(i, count), settings);
    past.advance(count);
    return norm(std::move(x), settings.norm_eps);
  }
  /// The table of the head, [padded vocabulary, width].
  constexpr const auto& head_table() const {
    if constexpr (C.tied == 1) return tokens.weight;
    else return output.weight;
  }
  /// [..., width] -> logits [..., padded vocabulary].
  constexpr auto head(const auto& x) const { return gr::matmul<gr::transpose{.b = true}>(x, head_table()); }
  /// Token ids [B, T] -> logits [B, T, padded vocabulary].
  constexpr auto operator()(const auto& ids) const { return head(hidden(ids)); }
  /// Mean cross-entropy, in nats, of predicting `targets` [B, T]. The logits are never there as a whole.
  constexpr auto loss(const auto& ids, const auto& targets) const {
    return gr::linear_cross_entropy<C.vocabulary>(hidden(ids), head_table(), targets);
  }
};

}  // namespace llama

template <>
struct gpt::architecture<llama::config> {
  template <class X, llama::config C>
  using model = llama::model<X, C>;
};
