#pragma once
#include <algorithm>
#include <functional>
#include <span>

#include "unicode.hpp"

namespace gradus::unicode {

namespace detail {

constexpr bool is_ascii(char c) { return static_cast<unsigned char>(c) < 128; }

constexpr std::uint32_t combining_class(char32_t c) {
  const auto& runs = gradus::detail::combining_runs;
  return c < 0x300 ? 0 : *(std::upper_bound(runs.begin(), runs.end(), std::uint32_t{c} << 8 | 255) - 1) & 255;
}

/// Hangul syllables are computed (chapter 3.12).
struct hangul {
  static constexpr char32_t syllables = 0xAC00, leads = 0x1100, vowels = 0x1161, tails = 0x11A7, lead_count = 19,
                            vowel_count = 21, tail_count = 28, all = lead_count * vowel_count * tail_count;
};

/// What a character decomposes into, and whether that is canonical; nothing for most characters.
struct decomposition {
  std::u32string_view parts;
  bool canonical = false;
};
inline decomposition find_decomposition(char32_t c) {
  // Entries are a character, its parts, and a mark; no entry has a mark or another entry's character among its parts.
  constexpr std::u32string_view marks = U"§¶", all = gradus::detail::decompositions;
  std::size_t low = 0, high = all.size();  // an entry begins at low, and one ends before high
  while (low < high) {
    const std::size_t before = all.substr(low, (high - low) / 2).find_last_of(marks);
    const std::size_t begin = before == all.npos ? low : low + before + 1;
    const std::size_t end = all.find_first_of(marks, begin);
    if (all[begin] == c) return {all.substr(begin + 1, end - begin - 1), all[end] == marks[0]};
    if (all[begin] < c) low = end + 1;
    else high = begin;
  }
  return {};
}

inline void decompose(char32_t c, bool compatibly, std::u32string& to) {
  if (c < 0xA0) {
    to += c;
  } else if (const char32_t s = c - hangul::syllables; s < hangul::all) {
    to += hangul::leads + s / (hangul::vowel_count * hangul::tail_count);
    to += hangul::vowels + s / hangul::tail_count % hangul::vowel_count;
    if (s % hangul::tail_count != 0) to += hangul::tails + s % hangul::tail_count;
  } else if (const decomposition found = find_decomposition(c); found.canonical && compatibly) {
    for (const char32_t part : found.parts) {
      const decomposition further = find_decomposition(part);
      if (further.parts.empty()) to += part;
      else to += further.parts;
    }
  } else if (found.canonical || (compatibly && !found.parts.empty())) {
    to += found.parts;
  } else {
    to += c;
  }
}

/// The character that two compose; 0: none.
inline char32_t composed(char32_t a, char32_t b) {
  using h = hangul;
  if (a - h::leads < h::lead_count && b - h::vowels < h::vowel_count)
    return h::syllables + ((a - h::leads) * h::vowel_count + (b - h::vowels)) * h::tail_count;
  if (a - h::syllables < h::all && (a - h::syllables) % h::tail_count == 0 && b - h::tails - 1 < h::tail_count - 1)
    return a + (b - h::tails);
  constexpr std::u32string_view all = gradus::detail::compositions;  // three characters each
  std::size_t low = 0, high = all.size() / 3;
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    const char32_t first = all[3 * middle], second = all[3 * middle + 1];
    if (first == a && second == b) return all[3 * middle + 2];
    if (first < a || (first == a && second < b)) low = middle + 1;
    else high = middle;
  }
  return 0;
}

/// Puts marks into the canonical order (chapter 3.11).
inline void order_marks(std::span<char32_t> text) {
  const auto is_mark = [](char32_t c) { return combining_class(c) != 0; };
  for (auto begin = text.begin(); begin != text.end();) {
    begin = std::find_if(begin, text.end(), is_mark);
    const auto end = std::find_if_not(begin, text.end(), is_mark);
    std::ranges::stable_sort(begin, end, std::less(), [](char32_t c) { return combining_class(c); });
    begin = end;
  }
}

/// Composes a decomposed text: each mark, unless another between bars it, with the last character of class 0.
inline void compose(std::u32string& text) {
  std::size_t end = 0, base = text.npos;
  std::uint32_t last = 0;  // the class before the character at hand
  for (const char32_t c : text) {
    const std::uint32_t rank = combining_class(c);
    if (base != text.npos && (end == base + 1 || last < rank))
      if (const char32_t both = composed(text[base], c); both != 0) {
        text[base] = both;
        continue;
      }
    if (rank == 0) base = end;
    last = rank;
    text[end++] = c;
  }
  text.resize(end);
}

}  // namespace detail

GRADUS_IMPL void append_utf8(std::string& text, char32_t c) {
  const auto byte = [&](char32_t bits) { text += static_cast<char>(static_cast<unsigned char>(bits)); };
  if (c < 0x80) return byte(c);
  if (c < 0x800) {
    byte(0xC0 | c >> 6);
  } else {
    if (c < 0x10000) {
      byte(0xE0 | c >> 12);
    } else {
      byte(0xF0 | c >> 18);
      byte(0x80 | (c >> 12 & 0x3F));
    }
    byte(0x80 | (c >> 6 & 0x3F));
  }
  byte(0x80 | (c & 0x3F));
}

GRADUS_IMPL std::string to_utf8(char32_t c) {
  std::string text;
  append_utf8(text, c);
  return text;
}

GRADUS_IMPL std::size_t count_broken(std::string_view text) {
  std::size_t count = 0;
  for (std::size_t at = 0; at < text.size();) {
    if (detail::is_ascii(text[at])) {
      ++at;
      continue;
    }
    const utf8_character c = read_utf8(text, at);
    if (!c.valid) ++count;
    at += c.bytes;
  }
  return count;
}

GRADUS_IMPL std::string replace_broken(std::string_view text) {
  std::string whole;
  whole.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const utf8_character c = read_utf8(text, at);
    whole += c.valid ? text.substr(at, c.bytes) : replacement_in_utf8;
    at += c.bytes;
  }
  return whole;
}

GRADUS_IMPL char32_t lower_case(char32_t c) {
  if (c < 128) return c >= U'A' && c <= U'Z' ? c + (U'a' - U'A') : c;
  if (c == 0x130) return U'i';
  const std::u32string_view all = gradus::detail::upper_case;
  const auto found = std::ranges::lower_bound(all, c);
  return found != all.end() && *found == c ? gradus::detail::lower_case[static_cast<std::size_t>(found - all.begin())]
                                           : c;
}

GRADUS_IMPL std::string lower_case(std::string_view text) {
  std::string lowered;
  lowered.reserve(text.size());
  for_each_character(text, [&](char32_t c, std::string_view) {
    append_utf8(lowered, lower_case(c));
    if (c == 0x130) append_utf8(lowered, 0x307);  // the only character that becomes two
  });
  return lowered;
}

GRADUS_IMPL std::string normalized(std::string_view text, normal_form form) {
  const bool composes = form == normal_form::nfc || form == normal_form::nfkc;
  const bool compatibly = form == normal_form::nfkc || form == normal_form::nfkd;
  std::string result;
  result.reserve(text.size());
  std::u32string some;
  for (std::size_t at = 0; at < text.size();) {
    // ASCII stays as it is, but marks may follow the last of its characters.
    std::size_t end = at;
    while (end < text.size() && detail::is_ascii(text[end])) ++end;
    const std::size_t begin = end == text.size() || end == at ? end : end - 1;
    result += text.substr(at, begin - at);
    while (end < text.size() && !detail::is_ascii(text[end])) ++end;
    some.clear();
    for_each_character(text.substr(begin, end - begin),
                       [&](char32_t c, std::string_view) { detail::decompose(c, compatibly, some); });
    detail::order_marks(some);
    if (composes) detail::compose(some);
    for (const char32_t c : some) append_utf8(result, c);
    at = end;
  }
  return result;
}

}  // namespace gradus::unicode
