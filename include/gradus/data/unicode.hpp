#pragma once
// UTF-8, and the character classes that GPT-2's pattern needs.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "../core/config.hpp"
#include "unicode_table.hpp"

namespace gradus::unicode {

/// The class of a character in a regular expression: `\p{L}`, `\p{N}`, `\s`, or none of them.
enum class character_class : std::uint8_t { other, letter, number, space };

/// The class of a code point in Unicode 16.0, independent of the machine's libraries.
constexpr character_class classify(char32_t c) {
  const auto after =
      std::upper_bound(detail::unicode_runs.begin(), detail::unicode_runs.end(), std::uint32_t{c} << 2 | 3);
  return static_cast<character_class>(*(after - 1) & 3);
}

/// Replaces bytes that are not UTF-8.
inline constexpr char32_t replacement_character = 0xFFFD;
inline constexpr std::string_view replacement_in_utf8 = "\xEF\xBF\xBD";

/// One character of a text, and its bytes; the replacement character for invalid bytes.
struct utf8_character {
  char32_t value = replacement_character;
  std::size_t bytes = 1;
  bool valid = false;
};

/// The character that starts at text[at]. Invalid bytes are grouped as the Unicode standard recommends (chapter 3.9,
/// "maximal subparts"), like Python's errors="replace": as long as they are the prefix of a character.
constexpr utf8_character read_utf8(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return {first, 1, true};
  const std::size_t length = first >= 0xC2 && first < 0xE0   ? 2
                             : first >= 0xE0 && first < 0xF0 ? 3
                             : first >= 0xF0 && first < 0xF5 ? 4
                                                             : 0;
  if (length == 0) return {};
  // The second byte excludes overlong forms, surrogates, and numbers beyond the last code point.
  const unsigned char low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const unsigned char high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  char32_t value = first & (0x7Fu >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if (at + i >= text.size() || byte(i) < (i == 1 ? low : 0x80) || byte(i) > (i == 1 ? high : 0xBF))
      return {replacement_character, i, false};
    value = value << 6 | (byte(i) & 0x3Fu);
  }
  return {value, length, true};
}

/// A code point as UTF-8.
std::string to_utf8(char32_t c);

/// The text with invalid UTF-8 replaced by the replacement character, like Python's errors="replace".
std::string replace_broken(std::string_view text);

}  // namespace gradus::unicode

#ifndef GRADUS_COMPILED
#include "unicode.ipp"
#endif
