#pragma once
// Learns a byte-level BPE from text.

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

/// Options of a bpe_trainer.
struct bpe_training {
  std::size_t vocabulary = 4096;    ///< all tokens: 256 bytes, merged ones, and special ones, in this order
  std::uint64_t min_frequency = 2;  ///< rarer pairs are not merged
  std::vector<std::string> special_tokens = {"<|endoftext|>"};
  broken_utf8 broken = broken_utf8::keep;
  word_pattern pattern = word_pattern::gpt2;  ///< how texts are split into words
};

/// Learns a byte-level BPE: counts words, starts from bytes, and merges the most frequent pair of neighbours until the
/// vocabulary is full (Sennrich et al. 2016). Call `count()` for each text, then `train()`.
///
/// Deterministic: of equally frequent pairs, merges the one with the smaller left, then right id. Gives the merges of
/// Hugging Face's BpeTrainer with the 256 bytes as initial alphabet (tokenizers 0.23).
class bpe_trainer {
 public:
  using token = tokenizer::token;

  /// Throws gradus::error if the vocabulary is too small for bytes and special tokens, or above 2^24.
  explicit bpe_trainer(bpe_training options = {});

  /// Counts the words of a text.
  void count(std::string_view text);

  /// The tokenizer learned from the texts so far; smaller than requested if no pair is frequent enough.
  tokenizer train() const;

 private:
  class run;

  void add(std::string_view word);

  bpe_training options_;
  std::unordered_map<std::string, std::uint64_t, detail::text_hash, std::equal_to<>> counts_;
};

/// A tokenizer of 256 tokens, which are the bytes: a byte-level BPE without merges.
tokenizer byte_level_tokenizer();

/// Learns a byte-level BPE from one text; see bpe_trainer.
tokenizer train_bpe(std::string_view text, bpe_training options = {});

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "bpe_trainer.ipp"
#endif
