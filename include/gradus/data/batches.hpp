#pragma once
// Batches of windows of tokens, in memory or in files, for training and validation.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "../core/config.hpp"
#include "../core/error.hpp"
#include "../core/extent.hpp"
#include "../core/philox.hpp"
#include "tokens.hpp"

namespace gradus {

/// Sequences for training, and sequences for validation.
struct sequence_split {
  std::vector<token_sequence> train;
  std::vector<token_sequence> validation;
};

namespace detail {

/// The random number that places a window of a step.
std::uint64_t window_draw(std::uint64_t seed, std::uint32_t step, std::uint64_t row);

/// The start of window `row` of `rows` windows spread evenly over `starts` positions.
std::size_t spread_start(std::size_t starts, std::size_t row, std::size_t rows);

/// The position of element `i` of 0, …, count-1 after a shuffle, computed without the other elements. A Feistel network
/// over the next power of four, keyed by Philox, repeated until the result is below count (cycle walking: Black and
/// Rogaway 2002, "Ciphers with arbitrary finite domains").
std::uint64_t shuffled(std::uint64_t i, std::uint64_t count, const random_key& key);

/// The sequence that contains number `i`, where sequence s ends before ends[s], and the number within it.
std::pair<std::size_t, std::size_t> find_place(const std::vector<std::size_t>& ends, std::size_t i);

}  // namespace detail

/// Splits off the last `validation_share` of all tokens: whole sequences from the end, and the end of one that is cut.
/// Not shuffled, so training and validation windows do not overlap. Omits pieces of less than `context` + 1 tokens.
/// Throws gradus::error if a part has no window; for a single sequence the message says how many tokens it needs.
sequence_split split_sequences(std::span<const token_sequence> sequences, std::size_t context,
                               double validation_share = 0.1);

/// Windows of `Context` tokens, and the next token of each, within several sequences. Batches are pure functions of
/// their arguments: a run resumes with its seed and a number. Tokens in memory must outlive this object.
///
/// Checks the tokens of each batch against the vocabulary, and throws if a file has changed since it was opened.
template <token_type Token, index_t Context>
class token_windows {
 public:
  /// Throws gradus::error for no sequences, a sequence shorter than a window, or a vocabulary that Token cannot
  /// represent. Without a vocabulary, every value of Token is valid. Sequences may store tokens in another type.
  explicit token_windows(std::vector<token_sequence> sequences,
                         std::size_t vocabulary = std::size_t{std::numeric_limits<Token>::max()} + 1)
      : sequences_(std::move(sequences)), vocabulary_(vocabulary) {
    if (sequences_.empty()) throw error("token_windows: no sequences are given");
    if (std::uint64_t{vocabulary} > std::uint64_t{std::numeric_limits<Token>::max()} + 1)
      throw error("token_windows: a vocabulary of " + std::to_string(vocabulary) + " does not fit into tokens of " +
                  std::to_string(sizeof(Token)) + (sizeof(Token) == 1 ? " byte" : " bytes"));
    for (const auto& s : sequences_) {
      if (s.size() <= Context)
        throw error(s.name() + ": too short: " + std::to_string(s.size()) + " tokens; a window needs " +
                    std::to_string(Context + 1));
      tokens_ += s.size();
      starts_.push_back(count(starts_) + s.size() - Context);
      windows_.push_back(count(windows_) + (s.size() - 1) / Context);
    }
  }

  std::size_t tokens() const { return tokens_; }
  std::size_t vocabulary() const { return vocabulary_; }
  std::span<const token_sequence> sequences() const { return sequences_; }
  /// Windows in an epoch of shuffled_batch.
  std::size_t windows() const { return windows_.back(); }

  /// Batch `number`, counted from 0: the sequences are cut into adjacent windows, shuffled anew for each epoch. Each
  /// window occurs once an epoch; a batch may span two. Each epoch cuts a sequence at other positions unless its length
  /// is a multiple. Throws gradus::error if an epoch is smaller than a batch, or for a token outside the vocabulary.
  template <index_t Batch>
  token_batch<Token, Batch, Context> shuffled_batch(std::uint64_t seed, std::uint64_t number) const {
    if (windows() < Batch)
      throw error(sequences_.front().name() + (sequences_.size() > 1 ? " and the others" : "") +
                  ": too short: " + std::to_string(windows()) + (windows() == 1 ? " window of " : " windows of ") +
                  std::to_string(Context) + " tokens; a batch needs " + std::to_string(Batch));
    token_batch<Token, Batch, Context> batch;
    for (std::size_t row = 0; row < Batch; ++row) {
      const std::uint64_t place = number * Batch + row, epoch = place / windows();
      const random_key key{seed, static_cast<std::uint32_t>(epoch), static_cast<std::uint32_t>(epoch >> 32),
                           random_domain::data};
      const std::uint64_t window = detail::shuffled(place % windows(), windows(), key);
      const auto [in, at] = detail::find_place(windows_, window);
      const std::size_t spare = (sequences_[in].size() - 1) % Context;
      // The shuffle numbers its draws below 2^35.
      const std::size_t shift = key.words((std::uint64_t{1} << 40) + in)[0] % (spare + 1);
      set(batch, row, in, at * Context + shift);
    }
    return batch;
  }

  /// Batch `part` of a step: windows at random positions.
  template <index_t Batch>
  token_batch<Token, Batch, Context> random_batch(std::uint64_t seed, std::uint32_t step,
                                                  std::uint32_t part = 0) const {
    token_batch<Token, Batch, Context> batch;
    for (std::size_t row = 0; row < Batch; ++row) {
      const auto [in, at] = detail::find_place(
          starts_, detail::window_draw(seed, step, std::uint64_t{part} * Batch + row) % starts_.back());
      set(batch, row, in, at);
    }
    return batch;
  }

  /// Batch `part` of `parts` for validation: windows spread evenly over all sequences, the same each time.
  template <index_t Batch>
  token_batch<Token, Batch, Context> spread_batch(std::size_t part, std::size_t parts) const {
    token_batch<Token, Batch, Context> batch;
    for (std::size_t row = 0; row < Batch; ++row) {
      const auto [in, at] =
          detail::find_place(starts_, detail::spread_start(starts_.back(), part * Batch + row, parts * Batch));
      set(batch, row, in, at);
    }
    return batch;
  }

 private:
  static std::size_t count(const std::vector<std::size_t>& ends) { return ends.empty() ? 0 : ends.back(); }
  template <class Batch>
  void set(Batch& batch, std::size_t row, std::size_t in, std::size_t start) const {
    const token_sequence& from = sequences_[in];
    std::vector<std::byte> buffer;
    from.part(start, Context + 1).read(buffer).visit([&](auto tokens) {
      Token* const inputs = batch.inputs.data() + row * Context;
      Token* const targets = batch.targets.data() + row * Context;
      for (std::size_t i = 0; i <= Context; ++i) {
        const auto t = tokens[i];
        if (std::cmp_less(t, 0) || std::cmp_greater_equal(t, vocabulary_))
          detail::refuse_token(from, start + i, t, vocabulary_);
        if (i < Context) inputs[i] = static_cast<Token>(t);
        if (i > 0) targets[i - 1] = static_cast<Token>(t);
      }
    });
  }

  std::vector<token_sequence> sequences_;
  std::size_t vocabulary_;
  std::size_t tokens_ = 0;
  std::vector<std::size_t> starts_;   // cumulative number of window positions by sequence
  std::vector<std::size_t> windows_;  // cumulative number of adjacent windows
};

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "batches.ipp"
#endif
