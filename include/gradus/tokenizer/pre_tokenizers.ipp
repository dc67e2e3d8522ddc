#pragma once
#include "../core/error.hpp"
#include "pre_tokenizers.hpp"

namespace gradus {

namespace detail {
/// The bytes that characters up to 323 stand for; -1: none.
inline constexpr std::array<std::int16_t, 324> bytes_of_characters = [] {
  std::array<std::int16_t, 324> bytes{};
  bytes.fill(-1);
  for (std::size_t b = 0; b < 256; ++b) bytes[byte_characters()[b]] = static_cast<std::int16_t>(b);
  return bytes;
}();
}  // namespace detail

GRADUS_IMPL std::string detail::as_byte_characters(std::string_view text) {
  constexpr auto characters = byte_characters();
  std::string all;
  all.reserve(text.size() * 2);
  for (const char c : text) unicode::append_utf8(all, characters[static_cast<unsigned char>(c)]);
  return all;
}

GRADUS_IMPL int detail::byte_of_character(char32_t c) {
  return c < bytes_of_characters.size() ? bytes_of_characters[c] : -1;
}

GRADUS_IMPL void pre_tokenizers::pattern_split::prepare() const {
  if (pattern.text().empty()) throw error("Split: the pattern is empty");
}

GRADUS_IMPL std::vector<pre_tokenizers::any> pre_tokenizers::byte_level_by(word_pattern pattern) {
  if (pattern == word_pattern::gpt2) return {byte_level{{.add_prefix_space = false}}};
  return {pattern_split{text_pattern(std::string(word_patterns[static_cast<std::size_t>(pattern)]), true)},
          byte_level{{.add_prefix_space = false, .use_regex = false}}};
}

}  // namespace gradus
