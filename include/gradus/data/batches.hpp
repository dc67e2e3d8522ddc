#pragma once
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

/// Sequences to learn from, and sequences to be judged on.
struct sequence_split {
  std::vector<token_sequence> train;
  std::vector<token_sequence> validation;
};

namespace detail {

/// What chooses the place of a window of a step.
std::uint64_t window_draw(std::uint64_t seed, std::uint32_t step, std::uint64_t row);

/// Where window `row` of `rows` begins that lie evenly over `starts` places.
std::size_t spread_start(std::size_t starts, std::size_t row, std::size_t rows);

/// Where element `i` of 0, …, count-1 goes when they are shuffled: a bijection that is computed for one element alone.
/// A Feistel network over the next power of four, keyed by Philox; what lands outside is sent through again until it
/// lands within (Black and Rogaway 2002, "Ciphers with arbitrary finite domains").
std::uint64_t shuffled(std::uint64_t i, std::uint64_t count, const random_key& key);

/// The sequence that number `i` falls into, where sequence s has those below ends[s], and its number there.
std::pair<std::size_t, std::size_t> find_place(const std::vector<std::size_t>& ends, std::size_t i);

}  // namespace detail

/// Keeps the last `validation_share` of all the tokens for validation: whole sequences from the end, and the end of one
/// that is cut in two. Cut, not shuffled: a window of one part must never overlap a window of the other. A piece that
/// holds no window of `context` tokens and the one after it is left out. Both parts must hold one, or gradus::error
/// says so, and of a single sequence how many tokens it would need.
sequence_split split_sequences(std::span<const token_sequence> sequences, std::size_t context,
                               double validation_share = 0.1);

/// Windows of `Context` tokens, and the token after each, from several sequences; none crosses from one into the next.
/// Batches are pure functions of what they are asked with: any thread may make any batch, in any order, and a run goes
/// on where it was by knowing its seed and a number. Holds no tokens: those in memory must outlive it.
///
/// Every token of a batch is held against the vocabulary, and a batch of a file that has changed since it was opened is
/// an error.
template <token_type Token, index_t Context>
class token_windows {
 public:
  /// Throws gradus::error for no sequences, for one that holds no window, and for a vocabulary that Token cannot count.
  /// Without a vocabulary, any value of Token is a token. The sequences may store their tokens in another type than
  /// Token.
  explicit token_windows(std::vector<token_sequence> sequences,
                         std::size_t vocabulary = std::size_t{std::numeric_limits<Token>::max()} + 1)
      : sequences_(std::move(sequences)), vocabulary_(vocabulary) {
    if (sequences_.empty()) throw error("token_windows: there is nothing to take batches from");
    if (std::uint64_t{vocabulary} > std::uint64_t{std::numeric_limits<Token>::max()} + 1)
      throw error("token_windows: a vocabulary of " + std::to_string(vocabulary) + " does not fit into tokens of " +
                  std::to_string(sizeof(Token)) + (sizeof(Token) == 1 ? " byte" : " bytes"));
    for (const auto& s : sequences_) {
      if (s.size() <= Context)
        throw error(s.name() + ": too short: " + std::to_string(s.size()) + " tokens, and a window takes " +
                    std::to_string(Context + 1));
      tokens_ += s.size();
      starts_.push_back(count(starts_) + s.size() - Context);
      windows_.push_back(count(windows_) + (s.size() - 1) / Context);
    }
  }

  std::size_t tokens() const { return tokens_; }
  std::size_t vocabulary() const { return vocabulary_; }
  std::span<const token_sequence> sequences() const { return sequences_; }
  /// How many windows an epoch of shuffled_batch has.
  std::size_t windows() const { return windows_.back(); }

  /// Batch `number`, counted from 0, when the sequences are cut into windows end to end and these are shuffled, anew
  /// for each epoch. Every window comes once an epoch; a batch may hold the last windows of one and the first of the
  /// next. Where a sequence is no whole number of windows, each epoch cuts it at other places. Throws gradus::error
  /// where an epoch is shorter than a batch, and for a token outside the vocabulary.
  template <index_t Batch>
  token_batch<Token, Batch, Context> shuffled_batch(std::uint64_t seed, std::uint64_t number) const {
    if (windows() < Batch)
      throw error(sequences_.front().name() + (sequences_.size() > 1 ? " and the others" : "") +
                  ": too short: " + std::to_string(windows()) + (windows() == 1 ? " window of " : " windows of ") +
                  std::to_string(Context) + " tokens, and a batch takes " + std::to_string(Batch));
    token_batch<Token, Batch, Context> batch;
    for (std::size_t row = 0; row < Batch; ++row) {
      const std::uint64_t place = number * Batch + row, epoch = place / windows();
      const random_key key{seed, static_cast<std::uint32_t>(epoch), static_cast<std::uint32_t>(epoch >> 32),
                           random_domain::data};
      const std::uint64_t window = detail::shuffled(place % windows(), windows(), key);
      const auto [in, at] = detail::find_place(windows_, window);
      const std::size_t spare = (sequences_[in].size() - 1) % Context;
      // Rounds of the shuffle number their draws below 2^35.
      const std::size_t shift = key.words((std::uint64_t{1} << 40) + in)[0] % (spare + 1);
      set(batch, row, in, at * Context + shift);
    }
    return batch;
  }

  /// Batch `part` of a step, of windows at random places.
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

  /// Batch `part` of `parts` whose windows lie evenly over all sequences: what a validation
  /// loss is taken over, so that it is the same windows every time.
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
  std::vector<std::size_t> starts_;   // places where a window may begin, up to the end of each sequence
  std::vector<std::size_t> windows_;  // windows end to end, likewise
};

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "batches.ipp"
#endif
