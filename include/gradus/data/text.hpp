#pragma once
// Text files, and bytes as tokens.

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "../core/config.hpp"
#include "../core/error.hpp"

namespace gradus {

/// The contents of a text file. Throws gradus::error if it is missing, a directory, unreadable or empty.
std::string read_text(const std::filesystem::path& path);

/// The tokenizer whose tokens are bytes: a vocabulary of 256, for any text, without training.
struct byte_tokenizer {
  using token = std::uint8_t;
  static constexpr std::size_t vocabulary = 256;

  static std::vector<token> encode(std::string_view text) { return {text.begin(), text.end()}; }
  static std::string decode(std::span<const token> tokens) { return {tokens.begin(), tokens.end()}; }
};

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "text.ipp"
#endif
