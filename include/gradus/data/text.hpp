#pragma once
// Text files, and bytes as tokens.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "../core/config.hpp"
#include "../core/error.hpp"
#include "../io/random_access_file.hpp"

namespace gradus {

namespace detail {
/// Throws gradus::error, which says what to do, if `head`, a file's first 8 bytes or all, begins like a compressed
/// file, an archive, or a format of tables or texts that nothing here reads.
void refuse_other_formats(const std::filesystem::path& path, std::span<const std::byte> head);
/// refuse_other_formats for an open file; also throws gradus::error if the file is empty. A pipe is not checked.
void check_text_file(const random_access_file& file);
}  // namespace detail

/// The contents of a text file. Throws gradus::error if it is missing, a directory, unreadable, empty or no text.
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
