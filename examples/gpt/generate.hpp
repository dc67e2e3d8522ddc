#pragma once
// Writing text with a model: the next token is drawn from its probabilities, and so on.

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gradus/generate/sampling.hpp>

#include "cached.hpp"
#include "config.hpp"
#include "vocabulary.hpp"

namespace gpt {

struct sampling {
  gr::sampling_rule rule{.temperature = 0.8};
  std::uint64_t seed = 1;

  /// The number in [0, 1) that decides on token `i` of text number `text`.
  double draw(std::uint32_t i, std::uint32_t text = 0) const {
    return static_cast<double>(gr::uniform_float(gr::random_key{seed, i, text}.words(0)[0]));
  }
};

/// The tokens of `Texts` texts that a model sees, equally many of each, and the logits of the next ones. Keys and
/// values of the tokens before are kept, so that a token costs a forward pass over itself alone. The logits are those
/// of a pass over all tokens of the window, to the bit.
///
/// When the window is full it slides: the last half of the context is taken in again from the start, which is a pass
/// over so many tokens, once in half a context. (Positions are learned, so that keys and values cannot move.)
template <class X, config C, gr::index_t Texts = 1>
class token_window {
 public:
  using network = model<X, C>;
  using device = typename X::device;
  using ids = std::array<std::int32_t, Texts>;

  token_window(const network& net, gr::context<device>& ctx)
      : net_(net), ctx_(ctx), past_(ctx), arriving_(ctx, Texts * C.padded_vocabulary()) {
    for (auto& text : tokens_) text.reserve(C.context);
    for (auto& text : again_) text.reserve(C.context);
  }

  /// Begins each text again with the same tokens, of which the last `context` are seen. What the window begins with
  /// already is not computed again. Throws gradus::error for a text without tokens, and for a token that the model has
  /// not.
  void begin(std::span<const std::int32_t> text) {
    if (text.empty()) throw gr::error("token_window: a text must begin with a token at least");
    text = text.last(std::min<std::size_t>(text.size(), C.context));
    std::size_t known = text.size() - 1;
    for (const auto& before : tokens_)
      known = std::min(known, static_cast<std::size_t>(std::ranges::mismatch(text, before).in1 - text.begin()));
    spans texts;
    texts.fill(text);
    take_in(texts, known);
  }
  /// Begins each text as the one in `other` stands, without computing anything again.
  void begin_as(const token_window<X, C, 1>& other) {
    past_.repeat(other.past_);
    tokens_.fill(other.tokens_[0]);
    logits_ = arriving_.values();
    for (gr::index_t i = 0; i < Texts; ++i)
      std::ranges::copy(other.logits_, logits_.subspan(i * C.padded_vocabulary()).begin());
  }
  /// Adds a token behind the others of each text.
  void add(const ids& next) {
    spans texts;
    if (past_.room() > 0) {
      for (gr::index_t i = 0; i < Texts; ++i) texts[i] = std::span(&next[i], 1);
      return take(texts);
    }
    for (gr::index_t i = 0; i < Texts; ++i) {
      again_[i].assign(tokens_[i].end() - static_cast<std::ptrdiff_t>(C.context / 2), tokens_[i].end());
      again_[i].push_back(next[i]);
      texts[i] = std::span<const std::int32_t>(again_[i]).last(std::max<gr::index_t>(1, C.context / 2));
    }
    take_in(texts, 0);
  }
  /// The tokens that the model sees of a text.
  std::span<const std::int32_t> tokens(gr::index_t text = 0) const { return tokens_[text]; }
  /// Logits of the token after them.
  std::span<const typename X::compute> logits(gr::index_t text = 0) const {
    return logits_.subspan(text * C.padded_vocabulary(), C.vocabulary);
  }

 private:
  template <class, config, gr::index_t>
  friend class token_window;
  using spans = std::array<std::span<const std::int32_t>, Texts>;
  static constexpr gr::index_t chunk = std::min<gr::index_t>(C.context, 64);  // of a long text

  // The first `known` tokens of these texts are in the window.
  void take_in(const spans& texts, gr::index_t known) {
    past_.rewind(known);
    for (auto& text : tokens_) text.resize(known);
    while (tokens_[0].size() < texts[0].size()) {
      spans some = texts;
      const std::size_t from = tokens_[0].size(), count = std::min(chunk, texts[0].size() - from);
      for (auto& text : some) text = text.subspan(from, count);
      take(some);
    }
  }
  void take(const spans& some) {
    if (some[0].size() == 1) take_as<1>(some);
    else take_as<chunk>(some);
    for (gr::index_t i = 0; i < Texts; ++i) tokens_[i].insert(tokens_[i].end(), some[i].begin(), some[i].end());
  }
  template <gr::index_t Times>
  void take_as(const spans& some) {
    std::array<std::int32_t, Texts * Times> all{};
    for (gr::index_t i = 0; i < Texts; ++i)
      std::ranges::copy(some[i], all.begin() + static_cast<std::ptrdiff_t>(i * Times));
    const auto there = gr::from_host<std::int32_t, gr::shape<Texts, Times>>(ctx_, all.data(), gr::category::input);
    arriving_.download(next(net_, there, past_, some[0].size()));
    logits_ = arriving_.values();
  }

  const network& net_;
  gr::context<device>& ctx_;
  cache<X, C, Texts> past_;
  gr::staging_buffer<typename X::compute, device> arriving_;
  std::span<typename X::compute> logits_;  // what arrived: [Texts, padded vocabulary]
  std::array<std::vector<std::int32_t>, Texts> tokens_, again_;
};

/// Writes `count` tokens that follow `prompt`, handing over the bytes of each as it comes; ends early if `emit` returns
/// false.
template <class X, config C>
void generate(token_window<X, C>& window, const vocabulary& words, std::string_view prompt, int count,
              const sampling& how, const std::function<bool(std::string_view)>& emit) {
  gr::token_sampler sampler(how.rule);
  window.begin(words.encode(prompt));
  for (int i = 0; i < count; ++i) {
    const auto next = static_cast<std::int32_t>(
        sampler.choose(window.logits().first(words.size()), window.tokens(), how.draw(static_cast<std::uint32_t>(i))));
    if (words.ends_text(next) || !emit(words.text_of(next))) return;
    if (i + 1 < count) window.add({next});
  }
}

}  // namespace gpt
