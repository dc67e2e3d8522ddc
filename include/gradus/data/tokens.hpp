#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "../core/error.hpp"
#include "../core/extent.hpp"
#include "../core/philox.hpp"

namespace gradus {

/// What a token may be stored as: one byte, two, or four.
template <class T>
concept token_type =
    std::is_same_v<T, std::uint8_t> || std::is_same_v<T, std::uint16_t> || std::is_same_v<T, std::int32_t>;

/// A text cut into the part a model learns from and the part it is judged on.
template <token_type Token>
struct token_split {
  std::span<const Token> train;
  std::span<const Token> validation;
};

/// Keeps the last `validation_share` of the tokens for validation. Cut, not shuffled: a window of one part must never overlap
/// a window of the other. Both parts must hold a window of `context` tokens and the one after it, or gradus::error says how
/// many tokens there would have to be.
template <token_type Token>
token_split<Token> split_tokens(std::span<const Token> tokens, std::size_t context, double validation_share = 0.1) {
  if (!(validation_share > 0 && validation_share < 1))
    throw error("split_tokens: the validation share must be between 0 and 1");
  const auto cut = [=](std::size_t n) {
    return static_cast<std::size_t>(static_cast<double>(n) * (1 - validation_share));
  };
  const auto suffices = [=](std::size_t n) { return cut(n) > context && n - cut(n) > context; };
  if (!suffices(tokens.size())) {
    std::size_t fewer = tokens.size(), needed = std::size_t{1} << 53;  // between them by halves
    while (needed - fewer > 1) {
      const std::size_t middle = fewer + (needed - fewer) / 2;
      (suffices(middle) ? needed : fewer) = middle;
    }
    throw error("too short: " + std::to_string(tokens.size()) + " tokens, and a context of " + std::to_string(context) +
                " needs at least " + std::to_string(needed));
  }
  return {tokens.first(cut(tokens.size())), tokens.subspan(cut(tokens.size()))};
}

/// `Batch` windows of `Context` tokens, row after row, and as targets the same windows one token later.
template <token_type Token, index Batch, index Context>
struct token_batch {
  std::vector<Token> inputs = std::vector<Token>(Batch * Context);
  std::vector<Token> targets = std::vector<Token>(Batch * Context);

  /// Makes row `row` the window that starts at `start`.
  void set(std::size_t row, std::span<const Token> tokens, std::size_t start) {
    for (std::size_t i = 0; i < Context; ++i) {
      inputs[row * Context + i] = tokens[start + i];
      targets[row * Context + i] = tokens[start + i + 1];
    }
  }
};

namespace detail {
// Operations number their draws 0, 1, 2, … within a step, so the last ordinal is free for the choice of windows.
inline constexpr std::uint32_t window_ordinal = 0xFFFFFFFFu;

inline std::size_t window_starts(std::size_t tokens, std::size_t context) {
  if (tokens < context + 1)
    throw error("windows: " + std::to_string(tokens) + " tokens hold no window of " + std::to_string(context) +
                " and the token after it");
  return tokens - context;
}

/// What chooses the place of a window of a step.
inline std::uint64_t window_draw(std::uint64_t seed, std::uint32_t step, std::uint64_t row) {
  const auto words = random_key{seed, step, window_ordinal}.words(row);
  return (std::uint64_t{words[1]} << 32) | words[0];
}

/// Where window `row` of `rows` begins that lie evenly over `starts` places.
inline std::size_t spread_start(std::size_t starts, std::size_t row, std::size_t rows) {
  const double place = rows > 1 ? static_cast<double>(row) / static_cast<double>(rows - 1) : 0.0;
  return static_cast<std::size_t>(place * static_cast<double>(starts - 1));
}
}  // namespace detail

/// Batch number `part` of a step, of windows at random places. A pure function of (tokens, seed, step, part): the same on any
/// machine, in any order, and after a resumption.
template <index Batch, index Context, token_type Token>
token_batch<Token, Batch, Context> random_windows(std::span<const Token> tokens, std::uint64_t seed, std::uint32_t step,
                                                  std::uint32_t part = 0) {
  const std::size_t starts = detail::window_starts(tokens.size(), Context);
  token_batch<Token, Batch, Context> batch;
  for (std::size_t row = 0; row < Batch; ++row)
    batch.set(row, tokens, detail::window_draw(seed, step, std::uint64_t{part} * Batch + row) % starts);
  return batch;
}

/// Batch number `part` of `parts` whose windows lie evenly over the whole text: what a validation loss is taken over, so
/// that it is the same windows every time.
template <index Batch, index Context, token_type Token>
token_batch<Token, Batch, Context> spread_windows(std::span<const Token> tokens, std::size_t part, std::size_t parts) {
  const std::size_t starts = detail::window_starts(tokens.size(), Context);
  token_batch<Token, Batch, Context> batch;
  for (std::size_t row = 0; row < Batch; ++row)
    batch.set(row, tokens, detail::spread_start(starts, part * Batch + row, parts * Batch));
  return batch;
}

}  // namespace gradus
