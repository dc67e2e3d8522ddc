#pragma once
// The split of a text into words, by the patterns of byte-level BPE tokenizers.

#include <array>
#include <cstddef>
#include <string_view>

#include "../core/config.hpp"

namespace gradus {

/// The regular expressions by which tokenizers split texts. Each describes what a word is, and its first alternative
/// that fits counts.
enum class word_pattern {
  /// `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+` (Radford et al. 2019, encoder.py).
  gpt2,
  /// `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|`
  /// `\s+(?!\S)|\s+` (Grattafiori et al. 2024; the pattern of Llama 3's tokenizer.json).
  llama3,
  /// As Llama 3's, with `\p{N}` in place of `\p{N}{1,3}` (Qwen 2, 2.5 and 3).
  qwen2,
};

/// The patterns as a tokenizer.json spells them.
inline constexpr std::array<std::string_view, 3> word_patterns{
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};

/// Splits a text into words by a pattern. The words concatenated are the text. Bytes that are not UTF-8 are neither
/// letter, number nor space. The text must outlive the splitter; `next()` returns an empty word at its end.
///
/// Written by hand: several times as fast as a regular expression, and one Unicode version on all machines.
class word_splitter {
 public:
  explicit word_splitter(std::string_view text, word_pattern pattern = word_pattern::gpt2)
      : text_(text), pattern_(pattern) {}

  std::string_view next();

 private:
  struct character;

  character look(std::size_t at) const;
  void take_gpt2_word();
  void take_later_word();

  /// Bytes of the English contraction at this position, or 0. It may be in upper case if `any_case`.
  std::size_t contraction(bool any_case) const;
  /// Takes `c` and the characters of its class that follow, `most` in all.
  void take_run(character c, std::size_t most);
  void take_line_ends();
  /// Takes a run of spaces, without the last one if text follows, unless there is only one.
  void take_spaces();

  std::string_view text_;
  word_pattern pattern_;
  std::size_t begin_ = 0;
  std::size_t at_ = 0;
};

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "words.ipp"
#endif
