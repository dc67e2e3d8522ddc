#pragma once
// A run's examples (texts, prompts with completions, chats), as packed batches of tokens. See text_data.hpp, whose place
// this takes where --data names examples.

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <gradus/data/token_examples.hpp>
#include <gradus/run/run.hpp>
#include <gradus/tokenizer/tokenizer.hpp>

#include "config.hpp"
#include "options.hpp"
#include "preferences.hpp"

namespace gpt {

/// A micro-batch: a row of whole documents, of batch times context positions at most; or of preferences a pair, each a
/// document of context positions at most.
using example_batch = std::conditional_t<preferences, preference<gr::packed_batch>, gr::packed_batch>;

/// The run's examples.
class example_data {
 public:
  static constexpr std::size_t most_positions = batch_size * sizes.context;

  /// Reads and encodes the examples; without a tokenizer, tokens are bytes. Throws gr::error, with a file and a line.
  example_data(const options& o, std::optional<gr::tokenizer> tokenizer, std::optional<gr::chat_format> format);

  bool bytes() const { return !tokenizer_; }
  const gr::tokenizer* tokenizer() const { return tokenizer_ ? &*tokenizer_ : nullptr; }
  static constexpr bool readable() { return true; }
  /// How chats are written; null if no example is one.
  const gr::chat_format* chat_format() const { return train_.chats && format_ ? &*format_ : nullptr; }
  static constexpr void warn_if_replaced(gr::run&) {}
  const std::string& identity() const { return identity_; }
  /// "180 examples of 12345 tokens, 20 of them for validation; 3 cut at the context"
  std::string size_text() const;
  /// Of each file the keys that are ignored, if it has some.
  std::vector<std::string> notes() const;
  /// Positions of a micro-batch, on average.
  double positions_a_batch() const;

  /// Micro-batch `number` of the run; any thread may make it.
  example_batch batch(const options& o, std::uint64_t number) const;
  /// The share of a micro-batch's positions that predict something, of the most that there may be.
  double share(std::uint64_t number) const;
  static double share_of(const gr::packed_batch& batch) {
    return static_cast<double>(batch.predicted) / static_cast<double>(most_positions);
  }
  static constexpr double share_of(const preference<gr::packed_batch>&) { return 1; }
  /// The number of batches that hold about `tokens` validation tokens, or all if there are fewer.
  std::size_t validation_batches(std::size_t tokens) const;
  example_batch validation_batch(std::size_t part, std::size_t of) const;
  /// 1 for bytes; otherwise unknown, 0, as of preferences.
  double bytes_a_token(std::size_t) const { return !preferences && bytes() ? 1 : 0; }

 private:
  std::vector<std::size_t> documents_of(std::optional<gr::pack_sequence>& rows, std::uint64_t number) const;

  std::optional<gr::tokenizer> tokenizer_;
  std::optional<gr::chat_format> format_;
  gr::token_examples train_, validation_;
  gr::document_rows validation_rows_;
  std::string identity_;
  std::size_t epoch_rows_ = 0;  // rows of the first epoch
  mutable std::mutex mutex_;
  // Of batches, which are made ahead, and of shares: each goes forward, so that an epoch is packed once.
  mutable std::optional<gr::pack_sequence> rows_, rows_of_shares_;
};

}  // namespace gpt
