#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "../core/config.hpp"
#include "unicode_table.hpp"

namespace gradus::unicode {

/// What a splitter of text into words asks of a character: `\p{L}`, `\p{N}`, `\s` of a regular expression, or none of
/// them.
enum class character_class : std::uint8_t { other, letter, number, space };

/// The class of a code point by Unicode 16.0. The same on every machine, whatever version its libraries know.
constexpr character_class classify(char32_t c) {
  const auto after =
      std::upper_bound(detail::unicode_runs.begin(), detail::unicode_runs.end(), std::uint32_t{c} << 2 | 3);
  return static_cast<character_class>(*(after - 1) & 3);
}

/// The character that stands for what is no UTF-8.
inline constexpr char32_t replacement_character = 0xFFFD;
inline constexpr std::string_view replacement_in_utf8 = "\xEF\xBF\xBD";

/// One character of a text, and how many bytes it takes. Where `valid` is false these bytes are no UTF-8, and the
/// character is the replacement character.
struct utf8_character {
  char32_t value = replacement_character;
  std::size_t bytes = 1;
  bool valid = false;
};

/// The character that starts at text[at]. Bytes that are no UTF-8 are taken together as the Unicode standard recommends
/// (chapter 3.9, "maximal subparts"), and as Python's errors="replace" does: as long as they begin some character.
constexpr utf8_character read_utf8(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return {first, 1, true};
  const std::size_t length = first >= 0xC2 && first < 0xE0   ? 2
                             : first >= 0xE0 && first < 0xF0 ? 3
                             : first >= 0xF0 && first < 0xF5 ? 4
                                                             : 0;
  if (length == 0) return {};
  // The second byte is what rules out longer spellings than needed, surrogates, and numbers past the last code point.
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

/// The text with the replacement character in place of what is no UTF-8, as Python's errors="replace" reads it.
std::string replace_broken(std::string_view text);

}  // namespace gradus::unicode

#ifndef GRADUS_COMPILED
#include "unicode.ipp"
#endif
