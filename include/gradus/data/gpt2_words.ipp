#pragma once
#include <array>

#include "gpt2_words.hpp"
#include "unicode.hpp"

namespace gradus {

namespace detail {

inline constexpr std::array<unicode::character_class, 128> gpt2_ascii = [] {
  std::array<unicode::character_class, 128> kinds{};
  for (char32_t c = 0; c < 128; ++c) kinds[c] = unicode::classify(c);
  return kinds;
}();

}  // namespace detail

struct gpt2_splitter::character {
  unicode::character_class kind;
  std::size_t bytes;
  bool valid;
};

GRADUS_IMPL gpt2_word gpt2_splitter::next() {
  begin_ = at_;
  valid_ = true;
  if (at_ == text_.size()) return {};
  if (const std::size_t bytes = contraction(); bytes != 0) {
    at_ += bytes;
    return word();
  }
  character c = look(at_);
  // A space belongs to the next word, if any.
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

GRADUS_IMPL gpt2_splitter::character gpt2_splitter::look(std::size_t at) const {
  const auto byte = static_cast<unsigned char>(text_[at]);
  if (byte < 128) return {detail::gpt2_ascii[byte], 1, true};
  const unicode::utf8_character c = unicode::read_utf8(text_, at);
  return {c.valid ? unicode::classify(c.value) : unicode::character_class::other, c.bytes, c.valid};
}

GRADUS_IMPL gpt2_word gpt2_splitter::word() const { return {text_.substr(begin_, at_ - begin_), valid_}; }

GRADUS_IMPL std::size_t gpt2_splitter::contraction() const {
  if (text_[at_] != '\'' || at_ + 1 == text_.size()) return 0;
  const char a = text_[at_ + 1];
  if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
  const char b = at_ + 2 < text_.size() ? text_[at_ + 2] : '\0';
  return (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l') ? 3 : 0;
}

GRADUS_IMPL void gpt2_splitter::take_run(character c) {
  const unicode::character_class kind = c.kind;
  do {
    valid_ = valid_ && c.valid;
    at_ += c.bytes;
    if (at_ == text_.size()) return;
    c = look(at_);
  } while (c.kind == kind);
}

GRADUS_IMPL void gpt2_splitter::take_spaces() {
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

}  // namespace gradus
