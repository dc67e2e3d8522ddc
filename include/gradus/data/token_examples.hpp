#pragma once
// Examples as tokens, and rows that several of them share. Not part of gradus.hpp: their files need nlohmann/json.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "../core/config.hpp"
#include "../core/error.hpp"
#include "../tokenizer/tokenizer.hpp"
#include "chat_format.hpp"
#include "text_examples.hpp"

namespace gradus {

/// A document, and which of its tokens are learned: token i by the output at position i - 1.
struct token_example {
  std::vector<std::int32_t> tokens;
  std::vector<std::uint8_t> is_target;  ///< of each token

  /// The positions of a row that it fills: each token but the last predicts the next one.
  std::size_t positions() const { return tokens.empty() ? 0 : tokens.size() - 1; }
  /// The targets that a position predicts: not the first token.
  std::size_t targets() const;
  friend bool operator==(const token_example&, const token_example&) = default;
};

/// Encodes examples. For one thread at a time.
///
/// A text begins and ends with the tokenizer's begin_token() and end_token(), if there are, and all of it is learned. A
/// prompt has the tokens that it has alone, as it will be read; its completion and the end are learned. A chat has the
/// tokens of its format, and no others around it. Special tokens are found in texts, prompts and completions, unless
/// `special_tokens` is false; never in a chat's contents. Bytes as tokens end with a newline.
class example_encoder {
 public:
  /// The tokenizer must outlive it; null: tokens are bytes.
  explicit example_encoder(const tokenizer* by, std::optional<chat_format> format = {}, bool special_tokens = true);

  /// Throws gradus::error for a chat without a format, or that its format cannot write.
  token_example encode(const plain_example& example);
  token_example encode(const completion_example& example);
  token_example encode(const chat_example& example);
  /// The tokens of a chat with the assistant's turn opened.
  std::vector<std::int32_t> open(std::span<const chat_message> messages);

 private:
  const chat_format& format() const;
  token_example encode_parts(std::span<const text_part> parts);
  token_example encode_segments(std::span<const chat_segment> segments);
  void end(token_example& example) const;

  const tokenizer* by_;
  std::optional<token_encoder> encoder_;
  std::optional<chat_format> format_;
  bool special_tokens_;
};

/// What becomes of an example of too many tokens.
enum class long_examples { cut, skip };

/// Examples to train on, and how many were not taken as they are.
struct token_examples {
  std::vector<token_example> examples;
  std::vector<token_example> rejected;  ///< of preferences: for each example, which is the chosen one
  bool chats = false;                   ///< whether some are chats
  std::size_t cut = 0;                  ///< kept, without their ends
  std::size_t skipped = 0;              ///< left out: too long
  std::size_t without_target = 0;       ///< left out: nothing to learn, or nothing after the cut
  std::vector<std::string> notes;       ///< the keys that are ignored, a line for each file that has some

  /// Adds an example of at most `context` tokens, or what `longer` makes of it. Throws gradus::error, with where the
  /// example is from, as encode() does, and for preferences among others.
  void add(example_encoder& encoder, const text_example& example, std::size_t context,
           long_examples longer = long_examples::cut);
};

/// The examples of files and folders; see read_text_examples and token_examples::add. Texts are not kept.
token_examples read_token_examples(std::span<const std::filesystem::path> paths, example_encoder& encoder,
                                   std::size_t context, long_examples longer = long_examples::cut);

/// Rows of whole documents: for each row, which documents are in it.
using document_rows = std::vector<std::vector<std::size_t>>;

/// Puts documents of these lengths into rows of at most `capacity`, each into one. The documents are shuffled, and 512
/// at a time are placed, the longest first, each where it leaves the least room (best fit decreasing); the emptiest row
/// of these goes on with the next ones. The rows are shuffled, too. A function of its arguments alone.
///
/// Throws gradus::error for a document longer than a row.
document_rows pack_documents(std::span<const std::size_t> lengths, std::size_t capacity, std::uint64_t seed,
                             std::uint64_t epoch);

/// Rows by their number, through all epochs: the same for every rank, and after a resumption.
class pack_sequence {
 public:
  /// Throws gradus::error as pack_documents(), and for no documents.
  pack_sequence(std::vector<std::size_t> lengths, std::size_t capacity, std::uint64_t seed);

  /// The documents of row `number`, until the next call. A row of an earlier epoch packs them all once more.
  std::span<const std::size_t> operator[](std::uint64_t number);
  /// The epoch of the last row.
  std::uint64_t epoch() const { return epoch_; }

 private:
  void start(std::uint64_t epoch, std::uint64_t first);

  std::vector<std::size_t> lengths_;
  std::size_t capacity_;
  std::uint64_t seed_, epoch_ = 0, first_ = 0;  // first_: the number of the epoch's first row
  document_rows rows_;
};

/// A row of documents for a model, of n positions. Those after the documents predict nothing, each a document alone.
struct packed_batch {
  std::vector<std::int32_t> tokens;     ///< [n]
  std::vector<std::int32_t> targets;    ///< [n]: the next token, or -1 where nothing is predicted
  std::vector<std::int32_t> spans;      ///< [n, 2]: where the document at each position begins and ends
  std::vector<std::int32_t> positions;  ///< [n]: within the document
  std::size_t used = 0;                 ///< positions with documents
  std::size_t predicted = 0;            ///< targets that are not -1
};

/// The row of some documents. Throws gradus::error if they have more than n positions.
packed_batch pack_batch(std::span<const token_example> examples, std::span<const std::size_t> documents, std::size_t n);

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "token_examples.ipp"
#endif
