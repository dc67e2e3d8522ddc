#pragma once
#include <limits>

#include "unicode.hpp"
#include "words.hpp"

namespace gradus {

namespace detail {
inline constexpr std::size_t any_number = std::numeric_limits<std::size_t>::max();
}

struct word_splitter::character {
  unicode::character_class kind;
  std::size_t bytes;
};

GRADUS_IMPL std::string_view word_splitter::next() {
  begin_ = at_;
  if (at_ == text_.size()) return {};
  if (const std::size_t bytes = contraction(pattern_ != word_pattern::gpt2); bytes != 0) at_ += bytes;
  else if (pattern_ == word_pattern::gpt2) take_gpt2_word();
  else take_later_word();
  return text_.substr(begin_, at_ - begin_);
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

GRADUS_IMPL void word_splitter::take_later_word() {
  using enum unicode::character_class;
  const character c = look(at_);
  const char first = text_[at_];
  const bool last = at_ + c.bytes == text_.size();
  const character behind = last ? character{space, 0} : look(at_ + c.bytes);
  if (c.kind == letter) {
    take_run(c, detail::any_number);
  } else if (c.kind == number) {
    take_run(c, pattern_ == word_pattern::llama3 ? 3 : 1);
  } else if (behind.kind == letter && first != '\r' && first != '\n') {
    at_ += c.bytes;
    take_run(behind, detail::any_number);
  } else if (c.kind == other || (first == ' ' && behind.kind == other)) {
    if (c.kind == space) at_ += c.bytes;
    take_run(c.kind == space ? behind : c, detail::any_number);
    take_line_ends();
  } else {
    take_spaces();
  }
}

GRADUS_IMPL word_splitter::character word_splitter::look(std::size_t at) const {
  const auto byte = static_cast<unsigned char>(text_[at]);
  if (byte < 128) return {unicode::classify(byte), 1};
  const unicode::utf8_character c = unicode::read_utf8(text_, at);
  return {c.valid ? unicode::classify(c.value) : unicode::character_class::other, c.bytes};
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

GRADUS_IMPL void word_splitter::take_run(character c, std::size_t most) {
  const unicode::character_class kind = c.kind;
  do {
    at_ += c.bytes;
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
  // But in GPT-2's, spaces up to the last line end are a word.
  if (pattern_ != word_pattern::gpt2 && after_lines != 0) at_ = after_lines;
}

}  // namespace gradus
