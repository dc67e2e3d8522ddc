#pragma once
#include <cstddef>
#include <string_view>

#include "../core/config.hpp"

namespace gradus {

/// A word of a text: its bytes, and whether all of them are UTF-8.
struct gpt2_word {
  std::string_view bytes;
  bool valid = true;
};

/// Splits a text into words as GPT-2 does, by the pattern
///
///     's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
///
/// (Radford et al. 2019, encoder.py). Together the words are the text. What is no UTF-8 is neither letter, number nor
/// space. The text must outlive the splitter; `next()` gives an empty word at its end.
///
/// The pattern is followed by hand: this is several times as fast as a regular expression, needs no library, and
/// classifies characters by one version of Unicode wherever it runs.
class gpt2_splitter {
 public:
  explicit gpt2_splitter(std::string_view text) : text_(text) {}

  gpt2_word next();

 private:
  struct character;

  character look(std::size_t at) const;
  gpt2_word word() const;

  /// Bytes of the English contraction that starts here, or 0.
  std::size_t contraction() const;
  /// As many characters of the class of `c` as there are; `c` is the first.
  void take_run(character c);
  /// A run of spaces, without its last one where something follows, unless it has only that one.
  void take_spaces();

  std::string_view text_;
  std::size_t begin_ = 0;
  std::size_t at_ = 0;
  bool valid_ = true;
};

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "gpt2_words.ipp"
#endif
