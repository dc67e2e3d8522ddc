#pragma once
// Learns tokenizers from texts.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "../core/config.hpp"
#include "../core/error.hpp"
#include "tokenizer.hpp"
#include "words.hpp"

namespace gradus {

/// What a tokenizer_trainer learns.
enum class tokenizer_kind {
  bpe,        ///< GPT-2's: a byte-level BPE, which has tokens for every text
  wordpiece,  ///< BERT's: parts of words between spaces and punctuation, by default without case and accents
  unigram,    ///< T5's: parts of words after a space, in normal form NFKC, by a unigram language model
};
constexpr auto names_of(tokenizer_kind) { return std::array{"bpe", "wordpiece", "unigram"}; }

/// Options of a tokenizer_trainer.
struct tokenizer_training {
  tokenizer_kind kind = tokenizer_kind::bpe;
  std::size_t vocabulary = 4096;    ///< all tokens, special ones among them
  std::uint64_t min_frequency = 2;  ///< rarer pairs are not merged; unigram: rarer parts of words are no candidates
  /// Empty: what the kind has. bpe: `<|endoftext|>`. wordpiece: `[PAD]`, `[UNK]`, `[CLS]`, `[SEP]`, `[MASK]`, of which
  /// the second to fourth are needed. unigram: `<pad>`, `</s>`, `<unk>`, of which the last two are needed.
  std::vector<std::string> special_tokens = {};
  /// wordpiece and unigram: the most characters that are tokens, the most frequent ones; 0: all. Texts with others have
  /// unknown tokens, and words with others are not learned from.
  std::size_t characters = 0;
  broken_utf8 broken = broken_utf8::keep;     ///< bpe; the others replace bytes that are not UTF-8
  word_pattern pattern = word_pattern::gpt2;  ///< bpe: how texts are split into words
  bool lowercase = true;                      ///< wordpiece: without case and accents
};

/// Learns a tokenizer: counts the words of texts as the tokenizer will split them, then chooses their parts. Call
/// `count()` for each text, then `train()`.
///
/// - bpe starts from the 256 bytes and merges the most frequent pair of neighbours until the vocabulary is full
/// (Sennrich
///   et al. 2016). Tokens are numbered as GPT-2's: bytes, merges in their order, special tokens.
/// - wordpiece does so from characters, of which those that continue a word have "##" before them; its tokens come
/// after
///   the special ones. Like Hugging Face's WordPieceTrainer, it is a BPE, of which only the vocabulary is used.
/// - unigram chooses the parts of words with which the texts are most probable (Kudo 2018); its tokens come after the
///   special ones, most probable first. A text ends with `</s>`.
///
/// Deterministic. Gives the merges of Hugging Face's BpeTrainer with the 256 bytes as initial alphabet, and the
/// vocabulary of its WordPieceTrainer but for ties, which it breaks at random (tokenizers 0.23).
class tokenizer_trainer {
 public:
  using token = tokenizer::token;

  /// Throws gradus::error if the vocabulary is too small for bytes and special tokens, or above 2^24, or if a special
  /// token is missing, empty or given twice.
  explicit tokenizer_trainer(tokenizer_training options = {});

  /// Counts the words of a text.
  void count(std::string_view text);

  /// The tokenizer learned from the texts so far; smaller than requested if no part is frequent enough. Throws
  /// gradus::error if the characters of the texts are more than the vocabulary has room for; bytes always fit.
  tokenizer train() const;

 private:
  tokenizer_training options_;
  tokenizer untrained_;  // special tokens, and bytes
  std::unordered_map<std::string, std::uint64_t, detail::text_hash, std::equal_to<>> counts_;
};

/// A tokenizer of 256 tokens, which are the bytes: a byte-level BPE without merges.
tokenizer byte_level_tokenizer();

/// Learns a tokenizer from one text; see tokenizer_trainer.
tokenizer train_tokenizer(std::string_view text, tokenizer_training options = {});

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "tokenizer_trainer.ipp"
#endif
