#pragma once
// Generation with a key-value cache: the logits of the next token, for one text or several.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "../core/error.hpp"
#include "../core/philox.hpp"
#include "../memory/context.hpp"
#include "../nn/key_value_cache.hpp"
#include "../ops/embedding/embedding.hpp"
#include "../ops/reshape/reshape.hpp"
#include "../tensor/creation.hpp"
#include "../tensor/staging_buffer.hpp"
#include "../tokenizer/text_tokenizer.hpp"
#include "sampling.hpp"

namespace gradus {

/// Appends the first `count` tokens of `ids` [Texts, T] to `cache`, and returns the logits [Texts, columns] of the next
/// token. See token_window for what a model must have.
template <class Model, class D, index_t Texts, index_t T, class Cache>
auto next_logits(const Model& net, const tensor<std::int32_t, shape<Texts, T>, D>& ids, Cache& cache, index_t count) {
  std::array<std::int32_t, Texts> last{};
  for (index_t b = 0; b < Texts; ++b) last[b] = static_cast<std::int32_t>(b * T + count - 1);
  const auto hidden = net.hidden(ids, cache, count);
  constexpr index_t width = std::remove_cvref_t<decltype(hidden)>::shape::extent(2);
  const auto rows = from_host<std::int32_t, shape<Texts>>(ids.owner(), last.data());
  return net.head(embedding(rows, reshape<Texts * T, width>(hidden)));
}

/// The tokens of `Texts` texts that a model sees, equally many of each, and the logits of the next ones. A key-value
/// cache holds the tokens before, so that a new token costs a forward pass over itself alone. The logits have the bits
/// of a forward pass over all tokens of the window.
///
/// When the window is full it slides: it recomputes the last half of the context from position 0, in one pass for each
/// half context written. (Positions are learned, so keys and values cannot move.)
///
/// @tparam Model a language model with
///   - `device`, and `template <index_t Texts> using cache = nn::key_value_cache<...>`,
///   - `context` and `vocabulary`: the most tokens it sees, and how many tokens there are,
///   - `hidden(ids, cache, count)`: int32 [Texts, T] -> [Texts, T, width] for tokens that follow those in the cache, of
///     which the first `count` are real; it advances the cache,
///   - `head(x)`: [Texts, width] -> logits [Texts, vocabulary or more].
template <class Model, index_t Texts = 1>
class token_window {
 public:
  using device = typename Model::device;
  using ids = std::array<std::int32_t, Texts>;
  using cache = typename Model::template cache<Texts>;
  using logits_tensor = decltype(next_logits(std::declval<const Model&>(),
                                             std::declval<const tensor<std::int32_t, shape<Texts, 1>, device>&>(),
                                             std::declval<cache&>(), index_t{1}));
  using value_type = typename logits_tensor::value_type;

  /// `net` and `ctx` must outlive the window. Throws out_of_memory.
  token_window(const Model& net, context<device>& ctx)
      : net_(net), ctx_(ctx), cache_(ctx), host_(ctx, Texts * columns) {
    for (auto& text : tokens_) text.reserve(Model::context);
    for (auto& text : again_) text.reserve(Model::context);
  }

  /// Begins each text anew with the same tokens; the model sees the last `context` of them. Tokens that the
  /// window already begins with are not recomputed. Throws gradus::error for a text without tokens, and for a token
  /// outside the vocabulary.
  void begin(std::span<const std::int32_t> text) {
    if (text.empty()) throw error("token_window: a text must begin with a token at least");
    text = text.last(std::min<std::size_t>(text.size(), Model::context));
    std::size_t known = text.size() - 1;
    for (const auto& before : tokens_)
      known = std::min(known, static_cast<std::size_t>(std::ranges::mismatch(text, before).in1 - text.begin()));
    spans texts;
    texts.fill(text);
    restart(texts, known);
  }
  /// Begins each text with the tokens of `other`, without computing them again.
  void begin_as(const token_window<Model, 1>& other) {
    cache_.repeat(other.cache_);
    tokens_.fill(other.tokens_[0]);
    logits_ = host_.values();
    for (index_t i = 0; i < Texts; ++i) std::ranges::copy(other.logits_, logits_.subspan(i * columns).begin());
  }
  /// Appends a token to each text.
  void add(const ids& next) {
    spans texts;
    if (cache_.room() > 0) {
      for (index_t i = 0; i < Texts; ++i) texts[i] = std::span(&next[i], 1);
      return compute(texts);
    }
    for (index_t i = 0; i < Texts; ++i) {
      again_[i].assign(tokens_[i].end() - static_cast<std::ptrdiff_t>(Model::context / 2), tokens_[i].end());
      again_[i].push_back(next[i]);
      texts[i] = std::span<const std::int32_t>(again_[i]).last(std::max<index_t>(1, Model::context / 2));
    }
    restart(texts, 0);
  }
  /// The tokens of a text that the model sees.
  std::span<const std::int32_t> tokens(index_t text = 0) const { return tokens_[text]; }
  /// Logits [vocabulary] of the next token of a text.
  std::span<const value_type> logits(index_t text = 0) const {
    return logits_.subspan(text * columns, Model::vocabulary);
  }

 private:
  template <class, index_t>
  friend class token_window;
  using spans = std::array<std::span<const std::int32_t>, Texts>;
  static constexpr index_t columns = logits_tensor::shape::extent(1);
  static constexpr index_t chunk = std::min<index_t>(Model::context, 64);  // tokens of a long text in one pass

  // Keeps the first `known` tokens of these texts in the cache and computes the others.
  void restart(const spans& texts, index_t known) {
    cache_.rewind(known);
    for (auto& text : tokens_) text.resize(known);
    while (tokens_[0].size() < texts[0].size()) {
      spans part = texts;
      const std::size_t from = tokens_[0].size(), count = std::min(chunk, texts[0].size() - from);
      for (auto& text : part) text = text.subspan(from, count);
      compute(part);
    }
  }
  void compute(const spans& part) {
    if (part[0].size() == 1) compute_padded<1>(part);
    else compute_padded<chunk>(part);
    for (index_t i = 0; i < Texts; ++i) tokens_[i].insert(tokens_[i].end(), part[i].begin(), part[i].end());
  }
  template <index_t T>
  void compute_padded(const spans& part) {
    std::array<std::int32_t, Texts * T> padded{};
    for (index_t i = 0; i < Texts; ++i) std::ranges::copy(part[i], padded.begin() + static_cast<std::ptrdiff_t>(i * T));
    const auto on_device = from_host<std::int32_t, shape<Texts, T>>(ctx_, padded.data(), category::input);
    host_.download(next_logits(net_, on_device, cache_, part[0].size()));
    logits_ = host_.values();
  }

  const Model& net_;
  context<device>& ctx_;
  cache cache_;
  staging_buffer<value_type, device> host_;
  std::span<value_type> logits_;  // in `host_`: [Texts, columns]
  std::array<std::vector<std::int32_t>, Texts> tokens_, again_;
};

/// How generate() writes.
struct generation {
  sampling_rule rule = {.temperature = 0.8};
  std::uint64_t seed = 1;

  /// The number in [0, 1) that draws token `i` of text number `text`.
  double draw(std::uint32_t i, std::uint32_t text = 0) const {
    return static_cast<double>(uniform_float(random_key{seed, i, text}.words(0)[0]));
  }
};

/// Writes up to `count` tokens that follow `prompt`, and passes the bytes of each to `receive`; ends early if `receive`
/// returns false, and at the token that ends a text.
template <class Model>
void generate(token_window<Model>& window, const text_tokenizer& tokenizer, std::string_view prompt, int count,
              const generation& how, const std::function<bool(std::string_view)>& receive) {
  token_sampler sampler(how.rule);
  window.begin(tokenizer.encode(prompt));
  for (int i = 0; i < count; ++i) {
    const auto next = static_cast<std::int32_t>(sampler.choose(
        window.logits().first(tokenizer.vocabulary()), window.tokens(), how.draw(static_cast<std::uint32_t>(i))));
    if (tokenizer.ends_text(next) || !receive(tokenizer.decode(next))) return;
    if (i + 1 < count) window.add({next});
  }
}

}  // namespace gradus
