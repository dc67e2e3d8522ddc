#pragma once
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "../core/error.hpp"
#include "../core/extent.hpp"
#include "../core/philox.hpp"
#include "tokens.hpp"

namespace gradus {

/// Tokens that belong together (a shard, a text), and what errors call them.
template <token_type Token>
struct token_sequence {
  std::span<const Token> tokens;
  std::string name;
};

/// Sequences to learn from, and sequences to be judged on.
template <token_type Token>
struct sequence_split {
  std::vector<token_sequence<Token>> train;
  std::vector<token_sequence<Token>> validation;
};

/// Keeps the last `validation_share` of all the tokens for validation: whole sequences from the end, and the end of one
/// that is cut in two. A piece that holds no window of `context` tokens and the one after it is left out. Both parts
/// must hold one, or gradus::error says so.
template <token_type Token>
sequence_split<Token> split_sequences(std::span<const token_sequence<Token>> sequences, std::size_t context,
                                      double validation_share = 0.1) {
  if (!(validation_share > 0 && validation_share < 1))
    throw error("split_sequences: the validation share must be between 0 and 1");
  std::size_t total = 0;
  for (const auto& s : sequences) total += s.tokens.size();
  auto left = static_cast<std::size_t>(static_cast<double>(total) * (1 - validation_share));
  sequence_split<Token> parts;
  for (const auto& s : sequences) {
    const std::size_t cut = std::min(left, s.tokens.size());
    left -= cut;
    if (cut > context) parts.train.push_back({s.tokens.first(cut), s.name});
    if (s.tokens.size() - cut > context) parts.validation.push_back({s.tokens.subspan(cut), s.name});
  }
  if (parts.train.empty() || parts.validation.empty())
    throw error("too short: of " + std::to_string(total) + " tokens in " + std::to_string(sequences.size()) +
                " sequences, a share for " + (parts.train.empty() ? "training" : "validation") +
                " holds no window of " + std::to_string(context) + " and the token after it");
  return parts;
}

namespace detail {

/// Where element `i` of 0, …, count-1 goes when they are shuffled: a bijection that is computed for one element alone.
/// A Feistel network over the next power of four, keyed by Philox; what lands outside is sent through again until it
/// lands within (Black and Rogaway 2002, "Ciphers with arbitrary finite domains").
inline std::uint64_t shuffled(std::uint64_t i, std::uint64_t count, const random_key& key) {
  const auto half = std::max(1, (static_cast<int>(std::bit_width(count - 1)) + 1) / 2);
  const std::uint64_t mask = (std::uint64_t{1} << half) - 1;
  do {
    std::uint64_t left = i >> half, right = i & mask;
    for (std::uint64_t round = 0; round < 6; ++round)
      left = std::exchange(right, left ^ (key.words(round << 32 | right)[0] & mask));
    i = left << half | right;
  } while (i >= count);
  return i;
}

}  // namespace detail

/// Windows of `Context` tokens, and the token after each, from several sequences; none crosses from one into the next.
/// Batches are pure functions of what they are asked with: any thread may make any batch, in any order, and a run goes
/// on where it was by knowing its seed and a number. Holds no tokens: they must outlive it.
///
/// Every token of a batch is held against the vocabulary.
template <token_type Token, index Context>
class token_windows {
 public:
  /// Throws gradus::error for no sequences, and for one that holds no window. Without a vocabulary, any value of Token
  /// is a token.
  explicit token_windows(std::vector<token_sequence<Token>> sequences,
                         std::size_t vocabulary = std::size_t{std::numeric_limits<Token>::max()} + 1)
      : sequences_(std::move(sequences)), vocabulary_(vocabulary) {
    if (sequences_.empty()) throw error("token_windows: there is nothing to take batches from");
    for (const auto& s : sequences_) {
      if (s.tokens.size() <= Context)
        throw error(s.name + ": too short: " + std::to_string(s.tokens.size()) + " tokens, and a window takes " +
                    std::to_string(Context + 1));
      tokens_ += s.tokens.size();
      starts_.push_back(count(starts_) + s.tokens.size() - Context);
      windows_.push_back(count(windows_) + (s.tokens.size() - 1) / Context);
    }
  }

  std::size_t tokens() const { return tokens_; }
  std::size_t vocabulary() const { return vocabulary_; }
  std::span<const token_sequence<Token>> sequences() const { return sequences_; }
  /// How many windows an epoch of shuffled_batch has.
  std::size_t windows() const { return windows_.back(); }

  /// Batch `number`, counted from 0, when the sequences are cut into windows end to end and these are shuffled, anew
  /// for each epoch. Every window comes once an epoch; a batch may hold the last windows of one and the first of the
  /// next. Where a sequence is no whole number of windows, each epoch cuts it at other places. Throws gradus::error
  /// where an epoch is shorter than a batch, and for a token outside the vocabulary.
  template <index Batch>
  token_batch<Token, Batch, Context> shuffled_batch(std::uint64_t seed, std::uint64_t number) const {
    if (windows() < Batch)
      throw error(sequences_.front().name + (sequences_.size() > 1 ? " and the others" : "") +
                  ": too short: " + std::to_string(windows()) + (windows() == 1 ? " window of " : " windows of ") +
                  std::to_string(Context) + " tokens, and a batch takes " + std::to_string(Batch));
    token_batch<Token, Batch, Context> batch;
    for (std::size_t row = 0; row < Batch; ++row) {
      const std::uint64_t place = number * Batch + row, epoch = place / windows();
      const random_key key{seed, static_cast<std::uint32_t>(epoch), static_cast<std::uint32_t>(epoch >> 32),
                           random_domain::data};
      const std::uint64_t window = detail::shuffled(place % windows(), windows(), key);
      const auto [in, at] = find(windows_, window);
      const std::size_t spare = (sequences_[in].tokens.size() - 1) % Context;
      // Rounds of the shuffle number their draws below 2^35.
      const std::size_t shift = key.words((std::uint64_t{1} << 40) + in)[0] % (spare + 1);
      set(batch, row, in, at * Context + shift);
    }
    return batch;
  }

  /// Batch `part` of a step, of windows at random places: random_windows over several sequences.
  template <index Batch>
  token_batch<Token, Batch, Context> random_batch(std::uint64_t seed, std::uint32_t step,
                                                  std::uint32_t part = 0) const {
    token_batch<Token, Batch, Context> batch;
    for (std::size_t row = 0; row < Batch; ++row) {
      const auto [in, at] =
          find(starts_, detail::window_draw(seed, step, std::uint64_t{part} * Batch + row) % starts_.back());
      set(batch, row, in, at);
    }
    return batch;
  }

  /// Batch `part` of `parts` whose windows lie evenly over all sequences: spread_windows over several.
  template <index Batch>
  token_batch<Token, Batch, Context> spread_batch(std::size_t part, std::size_t parts) const {
    token_batch<Token, Batch, Context> batch;
    for (std::size_t row = 0; row < Batch; ++row) {
      const auto [in, at] = find(starts_, detail::spread_start(starts_.back(), part * Batch + row, parts * Batch));
      set(batch, row, in, at);
    }
    return batch;
  }

 private:
  static std::size_t count(const std::vector<std::size_t>& ends) { return ends.empty() ? 0 : ends.back(); }
  /// The sequence that number `i` falls into, and its number there.
  static std::pair<std::size_t, std::size_t> find(const std::vector<std::size_t>& ends, std::size_t i) {
    const auto in = static_cast<std::size_t>(std::ranges::upper_bound(ends, i) - ends.begin());
    return {in, i - (in == 0 ? 0 : ends[in - 1])};
  }
  template <class Batch>
  void set(Batch& batch, std::size_t row, std::size_t in, std::size_t start) const {
    const auto& from = sequences_[in];
    const auto window = from.tokens.subspan(start, Context + 1);
    const auto outside = [this](Token t) { return std::cmp_less(t, 0) || std::cmp_greater_equal(t, vocabulary_); };
    if (const auto bad = std::ranges::find_if(window, outside); bad != window.end())
      throw error(from.name + ": token " + std::to_string(start + static_cast<std::size_t>(bad - window.begin())) +
                  " is " + std::to_string(*bad) + ", outside the vocabulary of " + std::to_string(vocabulary_));
    batch.set(row, from.tokens, start);
  }

  std::vector<token_sequence<Token>> sequences_;
  std::size_t vocabulary_;
  std::size_t tokens_ = 0;
  std::vector<std::size_t> starts_;   // places where a window may begin, up to the end of each sequence
  std::vector<std::size_t> windows_;  // windows end to end, likewise
};

}  // namespace gradus
