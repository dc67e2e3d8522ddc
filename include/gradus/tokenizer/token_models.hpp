#pragma once
// How a tokenizer spells a word by tokens, with the names of Hugging Face's tokenizers 0.23.

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "../core/config.hpp"
#include "../core/error.hpp"
#include "pair_table.hpp"
#include "text_trie.hpp"
#include "token_table.hpp"

namespace gradus {

namespace detail {
/// The token of each byte, `<0x00>` to `<0xFF>`; -1 where the vocabulary has none.
std::array<std::int32_t, 256> byte_tokens(const token_table& vocab);
/// The text of the token of a byte.
std::string byte_token(unsigned char byte);

/// Working memory of a model, so that a word takes none of its own.
struct spelling_scratch {
  struct symbol {
    std::int32_t id;
    std::uint32_t previous, next;
  };
  /// A pair to merge: lowest rank first, then leftmost.
  struct candidate {
    std::int32_t rank;
    std::uint32_t at;
    std::int32_t left, right, merged;
    bool operator>(const candidate& other) const { return std::tie(rank, at) > std::tie(other.rank, other.at); }
  };
  /// The best spelling of the first bytes of a word: its score, and its last token, which begins at `begin`.
  struct path {
    double score = 0;
    std::size_t begin = 0;
    std::int32_t last = 0;
    bool reached = false;
  };
  std::vector<symbol> symbols;
  std::vector<candidate> candidates;
  std::vector<path> paths;
};
}  // namespace detail

// Each `spell(word, to, scratch)` appends the tokens of a word that is not empty.
namespace token_models {

/// Byte pair encoding (Sennrich et al. 2016): begins with the characters of a word and merges pairs by a ranked list,
/// in O(n log n), because a word may be a megabyte of one letter.
struct bpe {
  token_table vocab;
  std::vector<std::array<std::string, 2>> merges;  ///< in the order in which they are applied
  std::optional<std::string> unk_token = {};       ///< of characters without a token; without it, they are left out
  std::string continuing_subword_prefix = {};      ///< before each character of a word but the first
  std::string end_of_word_suffix = {};             ///< after the last character of a word
  bool fuse_unk = false;                           ///< one unk_token for neighbouring characters
  bool byte_fallback = false;                      ///< characters without a token become the tokens of their bytes
  bool ignore_merges = false;                      ///< a word that is a token is not merged

  static constexpr const char* type = "BPE";
  static void fields(auto& of, const auto& f) {
    f.off("dropout");
    f("unk_token", of.unk_token);
    f.text_or_null("continuing_subword_prefix", of.continuing_subword_prefix);
    f.text_or_null("end_of_word_suffix", of.end_of_word_suffix);
    f("fuse_unk", of.fuse_unk);
    f("byte_fallback", of.byte_fallback);
    f("ignore_merges", of.ignore_merges);
    f.needed("vocab", of.vocab);
    f.needed("merges", of.merges);
  }
  /// Throws gradus::error if a merge is of or yields what is no token, or occurs twice.
  void prepare();
  void spell(std::string_view word, std::vector<std::int32_t>& to, detail::spelling_scratch& scratch) const;
  /// Bytes at the start of a word that may be spelled by themselves: no merge crosses their end. All of it, if there is
  /// no such place.
  std::size_t separable(std::string_view word) const;

 private:
  static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();
  static constexpr std::size_t joints = std::size_t{1} << 18;
  static std::size_t joint(char32_t before, char32_t after) {
    return (before * 0x9E3779B1u ^ after * 0x85EBCA6Bu) >> 14;
  }

  void split(std::string_view word, detail::spelling_scratch& scratch) const;
  void consider(std::uint32_t at, detail::spelling_scratch& scratch) const;
  std::optional<std::int32_t> token_of(std::string_view character, bool is_first, bool is_last) const;

  detail::pair_table table_;
  std::vector<std::int32_t> characters_;  // the tokens of single characters; -1: none
  std::array<std::int32_t, 256> bytes_{};
  std::int32_t unknown_ = -1;
  bool separable_ = false;
  std::vector<bool> joined_;  // by joint(): a merge may cross between these two
};

/// WordPiece (Wu et al. 2016; Devlin et al. 2019, tokenization.py): the longest token that a word begins with, the
/// longest that its rest begins with, and so on.
struct word_piece {
  token_table vocab;
  std::string unk_token = "[UNK]";               ///< of words that no tokens spell
  std::string continuing_subword_prefix = "##";  ///< begins the tokens that continue a word
  std::size_t max_input_chars_per_word = 100;    ///< a longer word is unknown

  static constexpr const char* type = "WordPiece";
  static void fields(auto& of, const auto& f) {
    f("unk_token", of.unk_token);
    f("continuing_subword_prefix", of.continuing_subword_prefix);
    f("max_input_chars_per_word", of.max_input_chars_per_word);
    f.needed("vocab", of.vocab);
  }
  /// Throws gradus::error if the unknown token is none.
  void prepare();
  void spell(std::string_view word, std::vector<std::int32_t>& to, detail::spelling_scratch&) const;

 private:
  std::int32_t unknown_ = 0;
};

/// A unigram language model (Kudo 2018): the spelling of a word with the highest sum of scores.
struct unigram {
  std::vector<std::pair<std::string, double>> vocab;  ///< texts and logarithms of probabilities, by id
  std::optional<std::size_t> unk_id = {};             ///< of characters without a token; neighbours share one
  bool byte_fallback = false;                         ///< what has no token becomes the tokens of its bytes

  static constexpr const char* type = "Unigram";
  static void fields(auto& of, const auto& f) {
    f("unk_id", of.unk_id);
    f.needed("vocab", of.vocab);
    f("byte_fallback", of.byte_fallback);
  }
  /// Throws gradus::error if there is no unknown token, or a score is no number.
  void prepare();
  void spell(std::string_view word, std::vector<std::int32_t>& to, detail::spelling_scratch& scratch) const;

 private:
  friend const token_table& tokens_of(const unigram& model) { return model.tokens_; }

  token_table tokens_;
  detail::text_trie trie_;
  std::array<std::int32_t, 256> bytes_{};
  std::vector<double> scores_;
  double unknown_score_ = 0;
};

/// A token for each word.
struct word_level {
  token_table vocab;
  std::string unk_token = "<unk>";

  static constexpr const char* type = "WordLevel";
  static void fields(auto& of, const auto& f) {
    f.needed("vocab", of.vocab);
    f("unk_token", of.unk_token);
  }
  /// Throws gradus::error if the unknown token is none.
  void prepare() { unknown_ = vocab.at(unk_token, "the unknown token"); }
  void spell(std::string_view word, std::vector<std::int32_t>& to, detail::spelling_scratch&) const {
    to.push_back(vocab.find(word).value_or(unknown_));
  }

 private:
  std::int32_t unknown_ = 0;
};

/// The tokens of a model.
const token_table& tokens_of(const auto& model) { return model.vocab; }

using any = std::variant<bpe, word_piece, word_level, unigram>;

}  // namespace token_models

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "token_models.ipp"
#endif
