#pragma once
// UTF-8, and what tokenizers need to know of characters.

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

/// What else a character may be, as Hugging Face's tokenizers 0.23 have it.
enum class property : std::uint32_t {
  punctuation = 1 << 2,  ///< for BERT: ASCII that is neither letter, number nor space, and general category P
  control = 1 << 3,      ///< removed by BERT's clean_text
  word = 1 << 4,         ///< `\w`
  numeric = 1 << 5,      ///< general category N in Unicode 17
  mark = 1 << 6,         ///< general category M
  accent = 1 << 7,       ///< removed by BERT's strip_accents
  extends = 1 << 8,      ///< continues the cluster of the character before it
  prepended = 1 << 9,    ///< begins the cluster of the character after it
  breaks = 1 << 10,      ///< is a cluster by itself
};

namespace detail {
/// The properties of a character, of which the lowest two bits are its class.
constexpr std::uint32_t properties_in_table(char32_t c) {
  const auto& runs = gradus::detail::unicode_runs;
  return *(std::upper_bound(runs.begin(), runs.end(), std::uint32_t{c} << 11 | 2047) - 1) & 2047;
}
inline constexpr std::array<std::uint16_t, 128> ascii_properties = [] {
  std::array<std::uint16_t, 128> all{};
  for (char32_t c = 0; c < 128; ++c) all[c] = static_cast<std::uint16_t>(properties_in_table(c));
  return all;
}();
constexpr std::uint32_t properties(char32_t c) { return c < 128 ? ascii_properties[c] : properties_in_table(c); }
}  // namespace detail

/// The class of a code point in Unicode 16.0, independent of the machine's libraries.
constexpr character_class classify(char32_t c) { return static_cast<character_class>(detail::properties(c) & 3); }
constexpr bool is(char32_t c, property what) { return (detail::properties(c) & static_cast<std::uint32_t>(what)) != 0; }
constexpr bool is_space(char32_t c) { return classify(c) == character_class::space; }

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

/// Calls f(character, bytes) for each character of a text, with the bytes that it has there.
template <class F>
constexpr void for_each_character(std::string_view text, const F& f) {
  for (std::size_t at = 0; at < text.size();) {
    const utf8_character c = read_utf8(text, at);
    f(c.value, text.substr(at, c.bytes));
    at += c.bytes;
  }
}

/// Appends a code point to a text in UTF-8.
void append_utf8(std::string& text, char32_t c);
/// A code point as UTF-8.
std::string to_utf8(char32_t c);

/// How many parts of a text are no UTF-8: what replace_broken() replaces.
std::size_t count_broken(std::string_view text);
/// The text with invalid UTF-8 replaced by the replacement character, like Python's errors="replace".
std::string replace_broken(std::string_view text);

/// A character in lower case. Of U+0130, which becomes two, the first one: 'i'.
char32_t lower_case(char32_t c);
/// A text in lower case, character by character.
std::string lower_case(std::string_view text);

/// The normal forms of a text (Unicode standard, annex 15).
enum class normal_form : std::uint8_t { nfc, nfd, nfkc, nfkd };
/// A text in a normal form.
std::string normalized(std::string_view text, normal_form form);

}  // namespace gradus::unicode

#ifndef GRADUS_COMPILED
#include "unicode.ipp"
#endif
