#pragma once
// Texts as tokens: a pipeline of parts, as a tokenizer.json describes it.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "../core/config.hpp"
#include "../core/error.hpp"
#include "added_tokens.hpp"
#include "decoders.hpp"
#include "normalizers.hpp"
#include "post_processors.hpp"
#include "pre_tokenizers.hpp"
#include "text_settings.hpp"
#include "token_models.hpp"
#include "token_table.hpp"

namespace gradus {

/// What becomes of bytes that are not UTF-8.
enum class broken_utf8 {
  keep,     ///< bytes, if the tokenizer's tokens are of bytes: then decode(encode(text)) == text for every text
  replace,  ///< U+FFFD, like Python's errors="replace": the ids and texts of Hugging Face's tokenizers
};

/// Options of encode().
struct encode_options {
  broken_utf8 broken = broken_utf8::keep;
  bool added_tokens = true;  ///< false: `<|endoftext|>` in a text is thirteen ordinary characters
};

/// A part of a text that others precede or follow: see token_encoder::encode_parts.
struct text_part {
  std::string_view text;
  bool marks = true;  ///< false: a mark that it spells is ordinary characters
  int group = 0;      ///< no token goes from one group to another
};

/// The parts of a tokenizer, in the order in which a text passes through them.
struct tokenizer_parts {
  std::vector<added_token> added_tokens = {};
  std::vector<normalizers::any> normalizers = {};
  std::vector<pre_tokenizers::any> pre_tokenizers = {};
  token_models::any model = {};
  std::vector<post_processors::any> post_processors = {};
  std::vector<decoders::any> decoders = {};
};

/// One text, or a pair of them, as a model reads it.
struct model_input {
  std::vector<std::int32_t> ids;       ///< with special tokens: [CLS] first [SEP] second [SEP]
  std::vector<std::int32_t> segments;  ///< of each id
};

/// Encodes texts and decodes tokens as Hugging Face's tokenizers do with the same parts.
///
/// Immutable but for set(), so threads may share it. tokenizer_json.hpp reads one from a file; tokenizer_trainer.hpp
/// learns one from text.
class tokenizer {
 public:
  using token = std::int32_t;

  /// Throws gradus::error for parts that cannot work: a merge of no tokens, two added tokens of one text, an added
  /// token with another id than Hugging Face's tokenizers would give it.
  explicit tokenizer(tokenizer_parts parts);

  const tokenizer_parts& parts() const { return parts_; }
  /// The number of ids: the largest plus one.
  std::size_t vocabulary() const { return ids_; }
  /// How a tokenizer.json spells a token. Throws gradus::error for an id outside the vocabulary.
  std::string_view spelling(token id) const;
  /// The id of a token by its spelling, if there is one: `id_of("[PAD]")`.
  std::optional<token> id_of(std::string_view spelling) const;
  /// The bytes that a token adds to a text: not necessarily whole characters. Throws gradus::error for an id outside
  /// the vocabulary.
  std::string bytes_of(token id) const;

  /// What the files of its model's folder say of texts; nothing for a tokenizer that was not read from one.
  const text_settings& settings() const { return settings_; }
  /// Takes over what they say. Throws gradus::error if a text ends with a token that there is not.
  void set(text_settings of);

  /// The token before each text, if any: Llama 3's `<|begin_of_text|>`, `[CLS]`. encode() does not add it.
  std::optional<token> begin_token() const;
  /// The token that ends a text, if any: the one that settings() name; where they say nothing of it, the first that
  /// there is of `<|endoftext|>`, `<|end_of_text|>`, `</s>`, `<eos>`, `<|im_end|>` and DeepSeek's.
  std::optional<token> end_token() const { return end_; }
  /// The tokens at each of which generated text ends: end_token(), and the others of settings().
  std::vector<token> end_tokens() const;

  /// Whether it can keep bytes that are not UTF-8; else broken_utf8::keep is broken_utf8::replace.
  bool keeps_broken() const { return byte_level_ && parts_.normalizers.empty(); }

  /// The tokens of a text, with nothing before or after them. For many texts, or for tokens that do not fit in memory,
  /// use a token_encoder.
  std::vector<token> encode(std::string_view text, encode_options options = {}) const;

  /// Calls `sink` for each word of a text: what normalizers and pre-tokenizers make of it. Added tokens are ordinary
  /// text here, and the words of a byte-level tokenizer are bytes.
  void split(std::string_view text, broken_utf8 broken, const std::function<void(std::string_view)>& sink) const;

  /// A text with its special tokens, cut at its end to `max_length` ids. Throws gradus::error if those alone are more.
  model_input input(std::string_view text, std::size_t max_length = no_limit) const;
  /// A pair of texts with their special tokens. What exceeds `max_length` ids is cut from the end of the longer text
  /// until both are equally long, then of both.
  model_input input(std::string_view first, std::string_view second, std::size_t max_length = no_limit) const;

  /// The text of tokens, special ones included. Throws gradus::error for a token outside the vocabulary.
  std::string decode(std::span<const token> tokens, broken_utf8 broken = broken_utf8::keep) const;

  static constexpr std::size_t no_limit = std::numeric_limits<std::size_t>::max();

 private:
  friend class token_encoder;

  void place_added_tokens();
  void normalize(std::string& text) const;
  /// Calls sink(word) for what the pre-tokenizers from number `stage` on make of a piece.
  template <class Sink>
  void split(text_piece piece, std::size_t stage, const Sink& sink) const;
  const token_table& table() const;
  model_input assembled(const std::vector<template_piece>& layout, std::vector<token> first, std::vector<token> second,
                        std::size_t max_length) const;

  tokenizer_parts parts_;
  text_settings settings_;
  std::optional<token> end_;
  post_processors::template_processing layout_;
  std::unordered_map<token, std::size_t> added_;  // their places in the list
  std::vector<std::string> shown_;  // their texts, normalized where they are looked for in normalized text
  std::size_t ids_ = 0;
  bool byte_level_ = false;                    // the last pre-tokenizer makes characters of bytes
  detail::added_token_finder before_, after_;  // normalization
};

/// Encodes texts with a tokenizer, which must outlive it; remembers words. For one thread at a time.
class token_encoder {
 public:
  using token = tokenizer::token;

  explicit token_encoder(const tokenizer& with, encode_options options = {}) : tokenizer_(with), options_(options) {}

  /// Calls `sink` with a few tokens of the text at a time, as std::span<const std::int32_t>.
  template <class Sink>
  void encode(std::string_view text, Sink&& sink) {
    encode_to(text, [&](std::span<const token> some) { sink(some); });
  }

  /// Encodes parts as the one text that they are, and calls `sink` with a few tokens and the group that they are of.
  /// Parts without marks, such as what a user wrote, have neither special tokens nor the added tokens that a part with
  /// marks spells. Where a group ends, its tokens are those that its text has alone, as if the rest had yet to be
  /// generated. U+FFFD replaces what is not UTF-8.
  void encode_parts(std::span<const text_part> parts,
                    const std::function<void(std::span<const token>, int group)>& sink);

  /// Parts of the texts so far that were no UTF-8.
  std::uint64_t broken() const { return broken_; }

 private:
  // The most words that are remembered, some 20 MB.
  static constexpr std::size_t most_words = std::size_t{1} << 17;
  static constexpr std::size_t longest_word = 64;

  struct place {
    std::size_t begin, count;
  };
  using token_sink = std::function<void(std::span<const token>)>;

  using token_filter = std::function<bool(const added_token&)>;

  void encode_to(std::string_view text, const token_sink& sink);
  /// Encodes what lies between added tokens that are found before normalization; `is_token` as in split().
  void encode_between(std::string_view text, bool first, const token_filter& is_token, const token_sink& sink);
  void add_word(std::string_view word, const token_sink& sink);
  /// The tokens of a word, until the next call.
  std::span<const token> tokens_of(std::string_view word);
  void spell(std::string_view word);

  const tokenizer& tokenizer_;
  encode_options options_;
  std::uint64_t broken_ = 0;
  std::unordered_map<std::string, place, detail::text_hash, std::equal_to<>> words_;
  std::vector<token> known_;
  std::vector<token> spelled_;
  detail::spelling_scratch scratch_;
};

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "tokenizer.ipp"
#endif
