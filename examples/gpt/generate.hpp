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

/// The tokens of a text that a model sees, and the logits of the next one. Keys and values of the tokens before are kept, so that a token costs
/// a forward pass over itself alone. The logits are those of a pass over all tokens of the window, to the bit.
///
/// When the window is full it slides: the last half of the context is taken in again from the start, which is a pass over so many tokens, once
/// in half a context. (Positions are learned, so that keys and values cannot move.)
template <class X, config C>
class token_window {
 public:
  using network = model<X, C>;

  token_window(const network& net, gr::context<gr::cpu>& ctx) : net_(net), ctx_(ctx), past_(ctx) {
    tokens_.reserve(C.context);
    again_.reserve(C.context);
  }

  /// Begins again with a text, of which the last `context` tokens are seen. What the window begins with already is not computed again.
  /// Throws gradus::error for a text without tokens, and for a token that the model has not.
  void begin(std::span<const std::int32_t> text) {
    if (text.empty()) throw gr::error("token_window: a text must begin with a token at least");
    text = text.last(std::min<std::size_t>(text.size(), C.context));
    const auto differs = std::ranges::mismatch(text, tokens_).in1 - text.begin();
    take_in(text, std::min(static_cast<gr::index>(differs), text.size() - 1));
  }
  /// Adds a token behind the others.
  void add(std::int32_t id) {
    if (past_.room() > 0) return take(std::span(&id, 1));
    again_.assign(tokens_.end() - static_cast<std::ptrdiff_t>(C.context / 2), tokens_.end());
    again_.push_back(id);
    take_in(std::span<const std::int32_t>(again_).last(std::max<gr::index>(1, C.context / 2)), 0);
  }
  /// The tokens that the model sees.
  std::span<const std::int32_t> tokens() const { return tokens_; }
  /// Logits of the token after them.
  std::span<const typename X::compute> logits() const { return logits_.values().first(C.vocabulary); }

 private:
  static constexpr gr::index chunk = std::min<gr::index>(C.context, 64);  // of a long text

  // The first `known` of these tokens are in the window.
  void take_in(std::span<const std::int32_t> text, gr::index known) {
    past_.rewind(known);
    tokens_.resize(known);
    while (tokens_.size() < text.size())
      take(text.subspan(tokens_.size(), std::min(chunk, text.size() - tokens_.size())));
  }
  void take(std::span<const std::int32_t> some) {
    if (some.size() == 1) take_as<1>(some);
    else take_as<chunk>(some);
    tokens_.insert(tokens_.end(), some.begin(), some.end());
  }
  template <gr::index Times>
  void take_as(std::span<const std::int32_t> some) {
    std::array<std::int32_t, Times> ids{};
    std::ranges::copy(some, ids.begin());
    logits_ = next(net_, gr::from_host<std::int32_t, gr::shape<1, Times>>(ctx_, ids.data(), gr::category::input), past_,
                   some.size());
  }

  const network& net_;
  gr::context<gr::cpu>& ctx_;
  cache<X, C, 1> past_;
  gr::tensor<typename X::compute, gr::shape<1, C.padded_vocabulary()>> logits_;
  std::vector<std::int32_t> tokens_, again_;
};

/// Writes `count` tokens that follow `prompt`, handing over the bytes of each as it comes; ends early if `emit` returns false.
template <class X, config C>
void generate(token_window<X, C>& window, const vocabulary& words, std::string_view prompt, int count,
              const sampling& how, const std::function<bool(std::string_view)>& emit) {
  gr::token_sampler sampler(how.rule);
  window.begin(words.encode(prompt));
  for (int i = 0; i < count; ++i) {
    const auto next = static_cast<std::int32_t>(
        sampler.choose(window.logits().first(words.size()), window.tokens(), how.draw(static_cast<std::uint32_t>(i))));
    if (words.ends_text(next) || !emit(words.text_of(next))) return;
    if (i + 1 < count) window.add(next);
  }
}

}  // namespace gpt
