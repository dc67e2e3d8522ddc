#pragma once
// GPT-2's split of text into words.

#include <cstddef>
#include <string_view>

#include "../core/config.hpp"

namespace gradus {

/// A word: its bytes, and whether all of them are UTF-8.
struct gpt2_word {
  std::string_view bytes;
  bool valid = true;
};

/// Splits a text into words like GPT-2, by the pattern
///
///     's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
///
/// (Radford et al. 2019, encoder.py). The words concatenated are the text. Bytes that are not UTF-8 are neither letter,
/// number nor space. The text must outlive the splitter; `next()` returns an empty word at its end.
///
/// Written by hand: several times as fast as a regular expression, and one Unicode version on all machines.
class gpt2_splitter {
 public:
  explicit gpt2_splitter(std::string_view text) : text_(text) {}

  gpt2_word next();

 private:
  struct character;

  character look(std::size_t at) const;
  gpt2_word word() const;

  /// Bytes of the English contraction at this position, or 0.
  std::size_t contraction() const;
  /// Takes `c` and all following characters of its class.
  void take_run(character c);
  /// Takes a run of spaces, without the last one if text follows, unless there is only one.
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
