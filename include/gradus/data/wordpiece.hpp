#pragma once
// WordPiece, the tokenizer of BERT.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "../core/config.hpp"
#include "../core/error.hpp"
#include "added_tokens.hpp"
#include "bert_text.hpp"

namespace gradus {

/// How a WordPiece tokenizer treats text, besides its tokens, with the defaults of bert-base-uncased.
struct wordpiece_settings {
  bert_normalizer normalizer = {};
  std::string unknown = "[UNK]";    ///< the token of words that no tokens spell
  std::string begin = "[CLS]";      ///< the token before the first text
  std::string separator = "[SEP]";  ///< the token after each text
  std::string continuation = "##";  ///< begins the tokens that continue a word
  std::size_t longest_word = 100;   ///< characters; a longer word is unknown
};

/// One text, or a pair of them, as a model of BERT's kind reads it.
struct wordpiece_input {
  std::vector<std::int32_t> ids;       ///< [CLS] first [SEP], or [CLS] first [SEP] second [SEP]
  std::vector<std::int32_t> segments;  ///< for each id: 0, and 1 from the first token of the second text on
};

/// WordPiece (Wu et al. 2016; Devlin et al. 2019, tokenization.py): rewrites a text and splits it into words as BERT
/// does, then spells each word by the longest token that it begins with, the longest that its rest begins with, and so
/// on. Gives the ids of Hugging Face's tokenizers.
///
/// Immutable, so threads may share it. wordpiece_json.hpp reads one from a tokenizer.json.
class wordpiece_tokenizer {
 public:
  using token = std::int32_t;

  /// `tokens[id]` is the text of token `id`, empty for unused ids. Added tokens are among them, or have ids of their
  /// own. Throws gradus::error if a token occurs twice, or the unknown, begin or separator token is missing.
  explicit wordpiece_tokenizer(std::vector<std::string> tokens, std::vector<added_token> added = {},
                               wordpiece_settings settings = {});

  /// The number of ids: the largest plus one.
  std::size_t vocabulary() const { return texts_.size(); }
  /// The text of a token: `play`, `##ing`. Throws gradus::error for an id outside the vocabulary.
  const std::string& text_of(token id) const;
  /// The id of the token with this text, if any: `id_of("[PAD]")`.
  std::optional<token> id_of(std::string_view text) const;
  std::span<const added_token> added_tokens() const { return added_; }
  const wordpiece_settings& settings() const { return settings_; }
  /// Whether words consist of this token; false for those that are only added.
  bool spells_words(token id) const;

  /// The tokens of a text, with nothing before or after them. Bytes that are not UTF-8 count as U+FFFD.
  std::vector<token> encode(std::string_view text) const;

  /// A text as [CLS] text [SEP], cut at its end to `max_length` ids. Throws gradus::error for a `max_length` below 2.
  wordpiece_input model_input(std::string_view text, std::size_t max_length = no_limit) const;
  /// A pair of texts as [CLS] first [SEP] second [SEP]. What exceeds `max_length` ids is cut from the end of the longer
  /// text until both are equally long, then of both. Throws gradus::error for a `max_length` below 3.
  wordpiece_input model_input(std::string_view first, std::string_view second, std::size_t max_length = no_limit) const;

  /// The words of the tokens, with spaces between them, but none before a period, a comma, a question mark, an
  /// exclamation mark and what follows an apostrophe. Throws gradus::error for a token outside the vocabulary.
  std::string decode(std::span<const token> tokens) const;

  static constexpr std::size_t no_limit = std::numeric_limits<std::size_t>::max();

 private:
  struct hash : std::hash<std::string_view> {
    using is_transparent = void;
  };

  void add_tokens_of_word(std::string_view word, std::vector<token>& to) const;
  void check_length(std::size_t max_length, std::size_t least) const;

  wordpiece_settings settings_;
  std::vector<std::string> texts_;
  std::vector<added_token> added_;
  std::unordered_map<std::string, token, hash, std::equal_to<>> words_;  // not the tokens that are only added
  std::size_t longest_ = 0;                                              // bytes of a token
  token unknown_ = 0, begin_ = 0, separator_ = 0;
  detail::added_token_finder before_, after_;  // normalization
};

/// Reads a vocabulary of BERT (vocab.txt): one token in each line, whose id is the number of the lines before it.
/// [UNK], [CLS], [SEP], [PAD] and [MASK] are special tokens. Throws gradus::error, too, for a file that is missing or
/// not UTF-8.
wordpiece_tokenizer read_wordpiece_vocabulary(const std::filesystem::path& path, wordpiece_settings settings = {});

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "wordpiece.ipp"
#endif
