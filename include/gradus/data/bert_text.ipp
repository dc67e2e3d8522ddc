#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "../core/sort.hpp"
#include "bert_table.hpp"
#include "bert_text.hpp"
#include "unicode.hpp"

namespace gradus {

namespace detail {

/// A character's class in `bert_classes`. Those from `reordered` on are ranks among marks.
struct bert_class {
  enum : std::uint32_t { other, punctuation, control, accent, accent_between, reordered };
};

constexpr std::uint32_t bert_class_of(char32_t c) {
  return *(std::ranges::upper_bound(bert_classes, std::uint32_t{c} << 4 | 15) - 1) & 15;
}

/// What a character becomes by a table of runs.
constexpr char32_t mapped(std::span<const std::uint64_t> runs, char32_t c) {
  const auto after = std::ranges::upper_bound(runs, std::uint64_t{c} << 43 | 0x7FF'FFFF'FFFF);
  if (after == runs.begin()) return c;
  const auto field = [run = *(after - 1)](int low, int bits) {
    return static_cast<char32_t>(run >> low & ((std::uint64_t{1} << bits) - 1));
  };
  const char32_t i = c - field(43, 21);
  return i < field(34, 9) ? field(13, 21) + i % 2 * field(6, 7) + i / 2 * field(0, 6) : c;
}

/// Takes accents away: decomposes characters, puts marks into the canonical order (Unicode, chapter 3.11), and leaves
/// out nonspacing ones.
class accent_stripper {
 public:
  void add(char32_t c) {
    constexpr char32_t syllables = 0xAC00, vowels = 21, finals = 28;  // Hangul: chapter 3.12
    const auto parts = std::ranges::lower_bound(parts_of_characters, c, {}, [](const auto& p) { return p[0]; });
    if (c < 0x80) {
      append(c, bert_class::other);
    } else if (const char32_t s = c - syllables; s < 19 * vowels * finals) {
      append(0x1100 + s / (vowels * finals));
      append(0x1161 + s / finals % vowels);
      if (s % finals != 0) append(0x11A7 + s % finals);
    } else if (parts != parts_of_characters.end() && (*parts)[0] == c) {
      for (std::size_t i = 1; i < parts->size() && (*parts)[i] != 0; ++i) append((*parts)[i]);
    } else if (c - 0xF900 < ideographs_f900.size()) {
      append(ideographs_f900[c - 0xF900]);
    } else if (c - 0x2F800 < ideographs_2f800.size()) {
      append(ideographs_2f800[c - 0x2F800]);
    } else {
      append(mapped(without_accents, c));
    }
  }
  std::u32string take() {
    flush();
    return std::move(text_);
  }

 private:
  void append(char32_t c) { append(c, bert_class_of(c)); }
  void append(char32_t c, std::uint32_t kind) {
    if (kind == bert_class::accent) return;
    if (kind >= bert_class::reordered) {
      marks_.push_back(c);
      return;
    }
    flush();
    if (kind != bert_class::accent_between) text_ += c;
  }
  void flush() {
    if (marks_.size() > 1)
      sort_stably(marks_, [](char32_t a, char32_t b) { return bert_class_of(a) < bert_class_of(b); });
    text_.append(marks_.begin(), marks_.end());
    marks_.clear();
  }

  std::u32string text_;
  std::vector<char32_t> marks_;  // that follow, not yet in order
};

constexpr bool is_ideograph(char32_t c) {
  // The ranges of tokenization.py, but for the last of its extensions, which begins at 2B820 there.
  constexpr std::array<std::array<char32_t, 2>, 8> blocks{{{0x3400, 0x4DBF},
                                                           {0x4E00, 0x9FFF},
                                                           {0xF900, 0xFAFF},
                                                           {0x20000, 0x2A6DF},
                                                           {0x2A700, 0x2B73F},
                                                           {0x2B740, 0x2B81F},
                                                           {0x2B920, 0x2CEAF},
                                                           {0x2F800, 0x2FA1F}}};
  return std::ranges::any_of(blocks, [&](const auto& b) { return c >= b[0] && c <= b[1]; });
}

}  // namespace detail

GRADUS_IMPL std::string bert_normalizer::operator()(std::string_view text) const {
  using unicode::character_class;
  const bool strip = strip_accents.value_or(lowercase);
  std::u32string plain;
  detail::accent_stripper stripped;
  const auto add = [&](char32_t c) {
    if (strip) stripped.add(c);
    else plain += c;
  };
  for (std::size_t at = 0; at < text.size();) {
    const unicode::utf8_character next = unicode::read_utf8(text, at);
    at += next.bytes;
    char32_t c = next.value;
    if (clean_text) {
      if (detail::bert_class_of(c) == detail::bert_class::control) continue;
      if (unicode::classify(c) == character_class::space) c = U' ';
    }
    const bool alone = handle_chinese_chars && detail::is_ideograph(c);
    if (alone) add(U' ');
    add(c);
    if (alone) add(U' ');
  }
  if (strip) plain = stripped.take();
  std::string result;
  result.reserve(plain.size());
  for (const char32_t c : plain) {
    if (!lowercase) result += unicode::to_utf8(c);
    else if (c == 0x130) result += "i\u0307";  // the only character that becomes two
    else result += unicode::to_utf8(detail::mapped(detail::lower_case, c));
  }
  return result;
}

GRADUS_IMPL std::string_view bert_splitter::next() {
  std::size_t begin = at_;
  while (at_ < text_.size()) {
    const unicode::utf8_character c = unicode::read_utf8(text_, at_);
    const bool space = unicode::classify(c.value) == unicode::character_class::space;
    if (space || detail::bert_class_of(c.value) == detail::bert_class::punctuation) {
      if (at_ > begin) break;
      at_ += c.bytes;
      if (!space) break;
      begin = at_;
    } else {
      at_ += c.bytes;
    }
  }
  return text_.substr(begin, at_ - begin);
}

}  // namespace gradus
