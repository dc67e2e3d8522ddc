#pragma once
// Byte-level byte pair encoding: tokenizer and encoder.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "../core/config.hpp"
#include "../core/error.hpp"
#include "added_tokens.hpp"
#include "bpe_tables.hpp"
#include "tokens.hpp"
#include "words.hpp"

namespace gradus {

/// How to encode bytes that are not UTF-8.
enum class broken_utf8 {
  keep,     ///< as bytes: decode(encode(text)) == text for every text
  replace,  ///< as U+FFFD, like Python's errors="replace": the ids of Hugging Face's tokenizers
};

/// Options of encode().
struct encode_options {
  broken_utf8 broken = broken_utf8::keep;
  bool added_tokens = true;  ///< false: `<|endoftext|>` in a text is thirteen ordinary characters
};

/// What a BPE tokenizer has besides its tokens and merges, with GPT-2's defaults.
struct bpe_settings {
  word_pattern pattern = word_pattern::gpt2;     ///< how a text is split into words
  bool whole_words = false;                      ///< a word that is a token is not merged: `ignore_merges`
  std::optional<std::int32_t> begin_token = {};  ///< the token before each text, if any; encode() does not add it
};

/// A byte-level BPE (byte pair encoding; Sennrich et al. 2016, Radford et al. 2019): splits a text into words by a
/// pattern and words into bytes, then merges bytes by a ranked list of pairs. Decoding restores any bytes.
///
/// Immutable, so threads may share it. tokenizer_json.hpp reads one from a file; bpe_trainer.hpp learns one from text.
class bpe_tokenizer {
 public:
  using token = std::int32_t;

  /// `tokens[id]` are the bytes of token `id`, empty for unused ids; `byte_tokens[b]` is the token of byte b. Merges
  /// are in order of rank. Throws gradus::error if an id is outside the vocabulary, a merged token is not the
  /// concatenation of its pair, or a pair or the text of an added token occurs twice; with `whole_words`, if two tokens
  /// have the same bytes.
  bpe_tokenizer(std::vector<std::string> tokens, const std::array<token, 256>& byte_tokens,
                std::vector<bpe_merge> merges, std::vector<added_token> added = {}, bpe_settings settings = {});

  /// The number of ids: the largest plus one.
  std::size_t vocabulary() const { return tokens_.size(); }
  /// The bytes of a token.
  std::string_view bytes_of(token id) const;
  token token_of_byte(unsigned char byte) const { return byte_tokens_[byte]; }
  std::span<const bpe_merge> merges() const { return merges_; }
  std::span<const added_token> added_tokens() const { return added_; }
  /// The id of the added token with this text, if any.
  std::optional<token> added_token_id(std::string_view text) const;
  const bpe_settings& settings() const { return settings_; }
  /// The token that a tokenizer.json puts before each text, if any: Llama 3's `<|begin_of_text|>`.
  std::optional<token> begin_token() const { return settings_.begin_token; }
  /// The added token that ends a text, if any: `<|endoftext|>`, or else `<|end_of_text|>`.
  std::optional<token> end_token() const;

  /// The tokens of a text. For many texts, or for tokens that do not fit in memory, use a bpe_encoder.
  std::vector<token> encode(std::string_view text, encode_options options = {}) const;

  /// The bytes of tokens; not necessarily whole characters. Throws gradus::error for a token outside the vocabulary.
  template <token_type Token>
  std::string decode(std::span<const Token> tokens) const {
    std::string text;
    for (const Token t : tokens) text += bytes_of(static_cast<token>(t));
    return text;
  }
  std::string decode(const std::vector<token>& tokens) const { return decode(std::span(tokens)); }

 private:
  friend class bpe_encoder;

  void check(token id, const char* what) const;
  void check_merges();
  void index_words();

  struct hash : std::hash<std::string_view> {
    using is_transparent = void;
  };

  std::vector<std::string> tokens_;
  std::array<token, 256> byte_tokens_;
  std::vector<bpe_merge> merges_;
  std::vector<added_token> added_;
  bpe_settings settings_;
  std::unordered_map<std::string, token, hash, std::equal_to<>> words_;  // with whole_words: tokens that are not added
  detail::merge_table table_;
  detail::added_token_finder first_, second_;
};

/// Encodes texts with a tokenizer, which must outlive it; caches words. For one thread at a time.
class bpe_encoder {
 public:
  using token = bpe_tokenizer::token;

  explicit bpe_encoder(const bpe_tokenizer& tokenizer, encode_options options = {})
      : tokenizer_(tokenizer), options_(options) {}

  /// Calls `sink` with a few tokens of the text at a time, as std::span<const std::int32_t>.
  template <class Sink>
  void encode(std::string_view text, Sink&& sink) {
    encode_to(text, [&](std::span<const token> some) { sink(some); });
  }

  /// Words so far with bytes that are not UTF-8.
  std::uint64_t broken_words() const { return broken_words_; }

 private:
  // The most words in the cache, some 20 MB.
  static constexpr std::size_t most_words = std::size_t{1} << 17;
  static constexpr std::size_t longest_word = 64;
  static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

  struct place {
    std::size_t begin;
    std::size_t count;
  };
  struct symbol {
    token id;
    std::uint32_t previous, next;
  };
  /// A pair to merge: lowest rank first, then leftmost.
  struct candidate {
    std::int32_t rank;
    std::uint32_t at;
    token left, right, merged;
    bool operator>(const candidate& other) const { return std::tie(rank, at) > std::tie(other.rank, other.at); }
  };

  using token_sink = std::function<void(std::span<const token>)>;
  void encode_to(std::string_view text, const token_sink& sink);
  void encode_plain(std::string_view text, const token_sink& sink);

  std::span<const token> tokens_of(std::string_view word);
  /// Stores the tokens of one word in merged_: O(n log n) in its bytes, because a word may be a megabyte of one letter.
  void merge(std::string_view word);
  void consider(std::uint32_t at);

  const bpe_tokenizer& tokenizer_;
  encode_options options_;
  std::uint64_t broken_words_ = 0;
  std::unordered_map<std::string, place, bpe_tokenizer::hash, std::equal_to<>> cache_;
  std::vector<token> cached_;
  std::vector<symbol> symbols_;
  std::vector<candidate> candidates_;
  std::vector<token> merged_;
};

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "bpe.ipp"
#endif
