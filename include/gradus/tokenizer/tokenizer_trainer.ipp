#pragma once
#include <algorithm>
#include <array>
#include <set>
#include <span>
#include <utility>

#include "bert_tokenizer.hpp"
#include "pair_merges.hpp"
#include "tokenizer_trainer.hpp"
#include "unicode.hpp"
#include "unigram_pieces.hpp"

namespace gradus {

namespace detail {

/// The tokens of a training but for the special ones.
struct learned_tokens {
  std::vector<std::pair<std::string, double>> texts;  // and scores, of a unigram model
  std::vector<std::array<std::string, 2>> merges = {};
};

inline constexpr std::string_view continues_word = "##";

/// The characters of bytes in the order of their code points, as GPT-2 numbers them: visible ones first.
inline std::vector<std::string> tokens_of_bytes() {
  auto characters = byte_characters();
  std::ranges::sort(characters);
  std::vector<std::string> texts;
  for (const char32_t c : characters) texts.push_back(unicode::to_utf8(c));
  return texts;
}

/// The options with the special tokens of their kind, if they have none.
inline tokenizer_training with_special_tokens(tokenizer_training options) {
  constexpr std::array<std::array<const char*, 5>, 3> of_kinds{
      {{"<|endoftext|>"}, {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}, {"<pad>", "</s>", "<unk>"}}};
  if (options.special_tokens.empty())
    for (const char* text : of_kinds[static_cast<std::size_t>(options.kind)])
      if (text != nullptr) options.special_tokens.emplace_back(text);
  return options;
}

/// A BPE of bytes, with the parts of GPT-2's tokenizer around it.
inline tokenizer_parts byte_level_parts(token_models::bpe model, word_pattern pattern) {
  return {.pre_tokenizers = pre_tokenizers::byte_level_by(pattern),
          .model = std::move(model),
          .decoders = {decoders::byte_level()}};
}

/// A unigram model with the parts of T5's tokenizer around it.
inline tokenizer_parts t5_parts(token_models::unigram model, const token_table& vocab) {
  const std::int32_t end = vocab.at("</s>", "the token");
  model.unk_id = static_cast<std::size_t>(vocab.at("<unk>", "the unknown token"));
  using p = template_piece;
  return {.normalizers = {normalizers::nfkc()},
          .pre_tokenizers = {pre_tokenizers::whitespace_split(), pre_tokenizers::metaspace()},
          .model = std::move(model),
          .post_processors = {post_processors::template_processing{
              {{p::first_text}, {p::special, "</s>"}},
              {{p::first_text}, {p::special, "</s>"}, {p::second_text}, {p::special, "</s>"}},
              {{"</s>", {end}}}}},
          .decoders = {decoders::metaspace()}};
}

/// The tokenizer of a kind with these tokens and the special ones.
inline tokenizer assembled(const tokenizer_training& options, learned_tokens learned) {
  auto& tokens = learned.texts;
  const bool special_last = options.kind == tokenizer_kind::bpe;
  auto place = special_last ? tokens.end() : tokens.begin();
  for (const std::string& text : options.special_tokens) place = tokens.emplace(place, text, 0.0) + 1;
  token_table vocab;
  for (std::size_t id = 0; id < tokens.size(); ++id) vocab.add(tokens[id].first, static_cast<std::int32_t>(id));

  std::vector<added_token> added;
  for (const std::string& text : options.special_tokens) added.push_back({.text = text, .id = *vocab.find(text)});
  tokenizer_parts parts;
  if (options.kind == tokenizer_kind::unigram) {
    token_models::unigram model;
    model.vocab = std::move(tokens);
    parts = t5_parts(std::move(model), vocab);
  } else if (options.kind == tokenizer_kind::wordpiece) {
    parts = bert_parts(std::move(vocab), {.lowercase = options.lowercase});
  } else {
    token_models::bpe model;
    model.vocab = std::move(vocab);
    model.merges = std::move(learned.merges);
    parts = byte_level_parts(std::move(model), options.pattern);
  }
  parts.added_tokens = std::move(added);
  return tokenizer(std::move(parts));
}

/// A tokenizer before its training.
inline tokenizer untrained(const tokenizer_training& options) {
  const std::set<std::string> special(options.special_tokens.begin(), options.special_tokens.end());
  if (special.size() != options.special_tokens.size()) throw error("a special token is given twice");
  if (special.contains("")) throw error("a special token has no text");
  const bool bytes = options.kind == tokenizer_kind::bpe;
  const std::size_t least = (bytes ? 256 : 1) + special.size(), most = std::size_t{1} << 24;
  if (options.vocabulary < least || options.vocabulary > most)
    throw error(names_of(options.kind)[static_cast<std::size_t>(options.kind)] +
                std::string(": a vocabulary has from ") + std::to_string(least) + " to " + std::to_string(most) +
                " tokens (" + (bytes ? "256 bytes and " : "other ones and ") + std::to_string(special.size()) +
                " special ones), not " + std::to_string(options.vocabulary));
  learned_tokens none;
  if (bytes)
    for (std::string& text : tokens_of_bytes()) none.texts.emplace_back(std::move(text), 0);
  return assembled(options, std::move(none));
}

/// Removes words with other characters than the `most` most frequent ones.
inline void keep_frequent_characters(std::vector<counted_word>& words, std::size_t most) {
  const auto counts = count_characters(words);
  std::vector<std::pair<std::string_view, std::uint64_t>> all(counts.begin(), counts.end());
  if (all.size() <= most) return;
  std::ranges::sort(
      all, [](const auto& a, const auto& b) { return a.second != b.second ? a.second > b.second : a.first < b.first; });
  std::set<std::string_view> rare;
  for (const auto& [character, count] : std::span(all).subspan(most)) rare.insert(character);
  std::erase_if(words, [&](const counted_word& word) {
    bool has_rare = false;
    unicode::for_each_character(word.text, [&](char32_t, std::string_view c) { has_rare |= rare.contains(c); });
    return has_rare;
  });
}

/// Throws gradus::error if these tokens, which spell single characters, are more than `room`.
inline void check_room(std::size_t characters, std::size_t room, std::size_t special) {
  if (characters > room)
    throw error("the characters of the texts need " + std::to_string(characters) + " tokens: a vocabulary of " +
                std::to_string(characters + special) + " at least, and not " + std::to_string(room + special) +
                ", or a limit to the most frequent characters");
}

/// Merges of bytes.
inline learned_tokens learn_bpe(const std::vector<counted_word>& words, const merge_training& options) {
  std::vector<std::string> tokens = tokens_of_bytes();
  std::array<std::int32_t, 256> bytes{};
  for (std::size_t id = 0; id < 256; ++id)
    bytes[static_cast<std::size_t>(byte_of_character(unicode::read_utf8(tokens[id], 0).value))] =
        static_cast<std::int32_t>(id);
  std::vector<symbol_word> all;
  for (const counted_word& word : words) {
    all.push_back({{}, static_cast<std::int64_t>(word.count)});
    for (const char c : word.text) all.back().symbols.push_back(bytes[static_cast<unsigned char>(c)]);
  }
  learned_tokens learned;
  learned.merges = learn_merges(std::move(all), tokens, options);
  for (std::string& text : tokens) learned.texts.emplace_back(std::move(text), 0);
  return learned;
}

/// Merges of characters, of which only the tokens count. All characters are tokens, and with the prefix those that
/// continue a word.
inline learned_tokens learn_wordpiece(const std::vector<counted_word>& words, merge_training options,
                                      std::size_t special) {
  std::set<std::string_view> first, continuing;
  for (const counted_word& word : words)
    unicode::for_each_character(word.text, [&](char32_t, std::string_view c) {
      first.insert(c);
      if (c.data() != word.text.data()) continuing.insert(c);
    });
  std::vector<std::string> tokens(first.begin(), first.end());
  for (const std::string_view c : continuing) tokens.push_back(std::string(continues_word).append(c));
  check_room(tokens.size(), options.vocabulary, special);
  std::unordered_map<std::string_view, std::int32_t> ids;
  for (std::size_t id = 0; id < tokens.size(); ++id) ids.emplace(tokens[id], static_cast<std::int32_t>(id));
  std::vector<symbol_word> all;
  for (const counted_word& word : words) {
    all.push_back({{}, static_cast<std::int64_t>(word.count)});
    unicode::for_each_character(word.text, [&](char32_t, std::string_view c) {
      const std::string spelled = std::string(c.data() == word.text.data() ? "" : continues_word).append(c);
      all.back().symbols.push_back(ids.at(spelled));
    });
  }
  ids.clear();  // its views are of tokens, which grow
  options.prefix = continues_word;
  learn_merges(std::move(all), tokens, options);
  learned_tokens learned;
  for (std::string& text : tokens) learned.texts.emplace_back(std::move(text), 0);
  return learned;
}

/// Pieces of words, with their scores.
inline learned_tokens learn_unigram(const std::vector<counted_word>& words, const merge_training& options,
                                    std::size_t special) {
  check_room(count_characters(words).size(), options.vocabulary, special);
  return {learn_pieces(words, {options.vocabulary, options.min_frequency, options.reserved})};
}

}  // namespace detail

GRADUS_IMPL tokenizer_trainer::tokenizer_trainer(tokenizer_training options)
    : options_(detail::with_special_tokens(std::move(options))), untrained_(detail::untrained(options_)) {}

GRADUS_IMPL void tokenizer_trainer::count(std::string_view text) {
  untrained_.split(text, options_.broken, [&](std::string_view word) {
    const auto found = counts_.find(word);
    if (found != counts_.end()) ++found->second;
    else counts_.emplace(word, 1);
  });
}

GRADUS_IMPL tokenizer tokenizer_trainer::train() const {
  std::vector<detail::counted_word> words;
  for (const auto& [text, count] : counts_) words.push_back({text, count});
  std::ranges::sort(words, {}, &detail::counted_word::text);
  if (options_.characters > 0 && options_.kind != tokenizer_kind::bpe)
    detail::keep_frequent_characters(words, options_.characters);
  const std::size_t special = options_.special_tokens.size();
  const detail::merge_training training{.vocabulary = options_.vocabulary - special,
                                        .min_frequency = options_.min_frequency,
                                        .reserved = options_.special_tokens};
  switch (options_.kind) {
    case tokenizer_kind::wordpiece:
      return detail::assembled(options_, detail::learn_wordpiece(words, training, special));
    case tokenizer_kind::unigram:
      return detail::assembled(options_, detail::learn_unigram(words, training, special));
    default:
      return detail::assembled(options_, detail::learn_bpe(words, training));
  }
}

GRADUS_IMPL tokenizer byte_level_tokenizer() {
  token_models::bpe model;
  for (const char32_t c : detail::byte_characters())
    model.vocab.add(unicode::to_utf8(c), static_cast<std::int32_t>(model.vocab.ids()));
  return tokenizer(detail::byte_level_parts(std::move(model), word_pattern::gpt2));
}

GRADUS_IMPL tokenizer train_tokenizer(std::string_view text, tokenizer_training options) {
  tokenizer_trainer trainer(std::move(options));
  trainer.count(text);
  return trainer.train();
}

}  // namespace gradus
