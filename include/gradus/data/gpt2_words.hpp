#pragma once
#include <array>
#include <cstddef>
#include <string_view>

#include "unicode.hpp"

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

  gpt2_word next() {
    begin_ = at_;
    valid_ = true;
    if (at_ == text_.size()) return {};
    if (const std::size_t bytes = contraction(); bytes != 0) {
      at_ += bytes;
      return word();
    }
    character c = look(at_);
    // A space belongs to the word behind it, if there is one.
    if (text_[at_] == ' ' && at_ + 1 < text_.size()) {
      if (const character behind = look(at_ + 1); behind.kind != unicode::character_class::space) {
        ++at_;
        c = behind;
      }
    }
    if (c.kind == unicode::character_class::space) take_spaces();
    else take_run(c);
    return word();
  }

 private:
  struct character {
    unicode::character_class kind;
    std::size_t bytes;
    bool valid;
  };

  static constexpr std::array<unicode::character_class, 128> ascii = [] {
    std::array<unicode::character_class, 128> kinds{};
    for (char32_t c = 0; c < 128; ++c) kinds[c] = unicode::classify(c);
    return kinds;
  }();

  character look(std::size_t at) const {
    const auto byte = static_cast<unsigned char>(text_[at]);
    if (byte < 128) return {ascii[byte], 1, true};
    const unicode::utf8_character c = unicode::read_utf8(text_, at);
    return {c.valid ? unicode::classify(c.value) : unicode::character_class::other, c.bytes, c.valid};
  }
  gpt2_word word() const { return {text_.substr(begin_, at_ - begin_), valid_}; }

  /// Bytes of the English contraction that starts here, or 0.
  std::size_t contraction() const {
    if (text_[at_] != '\'' || at_ + 1 == text_.size()) return 0;
    const char a = text_[at_ + 1];
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
    const char b = at_ + 2 < text_.size() ? text_[at_ + 2] : '\0';
    return (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l') ? 3 : 0;
  }
  /// As many characters of the class of `c` as there are; `c` is the first.
  void take_run(character c) {
    const unicode::character_class kind = c.kind;
    do {
      valid_ = valid_ && c.valid;
      at_ += c.bytes;
      if (at_ == text_.size()) return;
      c = look(at_);
    } while (c.kind == kind);
  }
  /// A run of spaces, without its last one where something follows, unless it has only that one.
  void take_spaces() {
    std::size_t last = at_;
    while (at_ < text_.size()) {
      const character c = look(at_);
      if (c.kind != unicode::character_class::space) {
        if (last != begin_) at_ = last;
        return;
      }
      last = at_;
      at_ += c.bytes;
    }
  }

  std::string_view text_;
  std::size_t begin_ = 0;
  std::size_t at_ = 0;
  bool valid_ = true;
};

}  // namespace gradus
