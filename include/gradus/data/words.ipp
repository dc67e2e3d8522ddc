#pragma once
#include <array>
#include <limits>

#include "unicode.hpp"
#include "words.hpp"

namespace gradus {

namespace detail {

inline constexpr std::array<unicode::character_class, 128> ascii_classes = [] {
  std::array<unicode::character_class, 128> kinds{};
  for (char32_t c = 0; c < 128; ++c) kinds[c] = unicode::classify(c);
  return kinds;
}();

inline constexpr std::size_t any_number = std::numeric_limits<std::size_t>::max();

}  // namespace detail

struct word_splitter::character {
  unicode::character_class kind;
  std::size_t bytes;
  bool valid;
};

GRADUS_IMPL text_word word_splitter::next() {
  begin_ = at_;
  valid_ = true;
  if (at_ == text_.size()) return {};
  if (const std::size_t bytes = contraction(pattern_ == word_pattern::llama3); bytes != 0) at_ += bytes;
  else if (pattern_ == word_pattern::llama3) take_llama3_word();
  else take_gpt2_word();
  return {text_.substr(begin_, at_ - begin_), valid_};
}

GRADUS_IMPL void word_splitter::take_gpt2_word() {
  character c = look(at_);
  // A space belongs to the next word, if any.
  if (text_[at_] == ' ' && at_ + 1 < text_.size()) {
    if (const character behind = look(at_ + 1); behind.kind != unicode::character_class::space) {
      ++at_;
      c = behind;
    }
  }
  if (c.kind == unicode::character_class::space) take_spaces();
  else take_run(c, detail::any_number);
}

GRADUS_IMPL void word_splitter::take_llama3_word() {
  using enum unicode::character_class;
  const character c = look(at_);
  const char first = text_[at_];
  const bool last = at_ + c.bytes == text_.size();
  const character behind = last ? character{space, 0, true} : look(at_ + c.bytes);
  if (c.kind == letter) {
    take_run(c, detail::any_number);
  } else if (c.kind == number) {
    take_run(c, 3);
  } else if (behind.kind == letter && first != '\r' && first != '\n') {
    take(c);
    take_run(behind, detail::any_number);
  } else if (c.kind == other || (first == ' ' && behind.kind == other)) {
    if (c.kind == space) take(c);
    take_run(c.kind == space ? behind : c, detail::any_number);
    take_line_ends();
  } else {
    take_spaces();
  }
}

GRADUS_IMPL word_splitter::character word_splitter::look(std::size_t at) const {
  const auto byte = static_cast<unsigned char>(text_[at]);
  if (byte < 128) return {detail::ascii_classes[byte], 1, true};
  const unicode::utf8_character c = unicode::read_utf8(text_, at);
  return {c.valid ? unicode::classify(c.value) : unicode::character_class::other, c.bytes, c.valid};
}

GRADUS_IMPL std::size_t word_splitter::contraction(bool any_case) const {
  if (text_[at_] != '\'') return 0;
  const auto letter = [&](std::size_t i) {
    const char c = at_ + i < text_.size() ? text_[at_ + i] : '\0';
    return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
  };
  const char a = letter(1), b = letter(2);
  if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
  // The long s is an s in another case.
  if (any_case && text_.substr(at_ + 1).starts_with("\u017F")) return 3;
  return (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l') ? 3 : 0;
}

GRADUS_IMPL void word_splitter::take(character c) {
  valid_ = valid_ && c.valid;
  at_ += c.bytes;
}

GRADUS_IMPL void word_splitter::take_run(character c, std::size_t most) {
  const unicode::character_class kind = c.kind;
  do {
    take(c);
    if (at_ == text_.size() || --most == 0) return;
    c = look(at_);
  } while (c.kind == kind);
}

GRADUS_IMPL void word_splitter::take_line_ends() {
  while (at_ < text_.size() && (text_[at_] == '\r' || text_[at_] == '\n')) ++at_;
}

GRADUS_IMPL void word_splitter::take_spaces() {
  std::size_t last = at_;
  std::size_t after_lines = 0;
  while (at_ < text_.size()) {
    const character c = look(at_);
    if (c.kind != unicode::character_class::space) {
      if (last != begin_) at_ = last;
      break;
    }
    last = at_;
    at_ += c.bytes;
    if (text_[last] == '\r' || text_[last] == '\n') after_lines = at_;
  }
  // Llama 3: spaces up to the last line end are a word.
  if (pattern_ == word_pattern::llama3 && after_lines != 0) at_ = after_lines;
}

}  // namespace gradus
