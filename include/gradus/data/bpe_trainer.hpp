#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "../core/config.hpp"
#include "../core/error.hpp"
#include "bpe.hpp"

namespace gradus {

/// What a tokenizer is to be like.
struct bpe_training {
  std::size_t vocabulary = 4096;    ///< tokens in all: 256 bytes, merged ones, and the special ones, which come last
  std::uint64_t min_frequency = 2;  ///< a pair that is rarer in the text is not merged
  std::vector<std::string> special_tokens = {"<|endoftext|>"};
  broken_utf8 broken = broken_utf8::keep;
};

/// Learns a byte-level BPE: counts words, starts from bytes, and merges the most frequent pair of neighbours until
/// there are enough tokens (Sennrich et al. 2016). Texts are given by `count()`, as many as there are; `train()` makes
/// the tokenizer.
///
/// Deterministic: of pairs that are equally frequent, the one with the smaller left id is merged, then the one with the
/// smaller right id. The merges are those of Hugging Face's BpeTrainer with the 256 bytes as initial alphabet
/// (tokenizers 0.23). Memory grows with the number of different words, not with the texts.
class bpe_trainer {
 public:
  using token = bpe_tokenizer::token;

  /// Throws gradus::error where the vocabulary has no room for bytes and special tokens, or is over 2^24.
  explicit bpe_trainer(bpe_training options = {});

  /// Counts the words of a text.
  void count(std::string_view text);

  /// The tokenizer that the texts so far give. It has fewer tokens than asked for where no pair is left that is
  /// frequent enough.
  bpe_tokenizer train() const;

 private:
  struct hash : std::hash<std::string_view> {
    using is_transparent = void;
  };

  class run;

  void add(std::string_view word);

  bpe_training options_;
  std::unordered_map<std::string, std::uint64_t, hash, std::equal_to<>> counts_;
};

/// Learns a byte-level BPE from one text; see bpe_trainer.
bpe_tokenizer train_bpe(std::string_view text, bpe_training options = {});

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "bpe_trainer.ipp"
#endif
