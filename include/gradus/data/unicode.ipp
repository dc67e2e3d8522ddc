#pragma once
#include "unicode.hpp"

namespace gradus::unicode {

GRADUS_IMPL std::string to_utf8(char32_t c) {
  const auto byte = [](char32_t bits) { return static_cast<char>(static_cast<unsigned char>(bits)); };
  if (c < 0x80) return {byte(c)};
  if (c < 0x800) return {byte(0xC0 | c >> 6), byte(0x80 | (c & 0x3F))};
  if (c < 0x10000) return {byte(0xE0 | c >> 12), byte(0x80 | (c >> 6 & 0x3F)), byte(0x80 | (c & 0x3F))};
  return {byte(0xF0 | c >> 18), byte(0x80 | (c >> 12 & 0x3F)), byte(0x80 | (c >> 6 & 0x3F)), byte(0x80 | (c & 0x3F))};
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

}  // namespace gradus::unicode
