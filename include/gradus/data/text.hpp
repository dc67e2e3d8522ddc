#pragma once
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "../core/error.hpp"

namespace gradus {

/// The contents of one text file, byte for byte. Throws gradus::error, which names the file, if it is missing, a directory,
/// unreadable or empty.
inline std::string read_text(const std::filesystem::path& path) {
  const auto fail = [&](const std::string& what) { throw error(path.string() + ": " + what); };
  std::error_code problem;
  const auto status = std::filesystem::status(path, problem);
  if (!std::filesystem::exists(status)) {
    const bool missing = status.type() == std::filesystem::file_type::not_found;
    fail(missing ? "no such file" : "cannot be read: " + problem.message());
  }
  if (std::filesystem::is_directory(status)) fail("is a directory; name a text file");

  errno = 0;
  const auto close = [](std::FILE* f) { std::fclose(f); };
  const std::unique_ptr<std::FILE, decltype(close)> file(std::fopen(path.string().c_str(), "rb"), close);
  if (file == nullptr) fail(std::string("cannot be read: ") + std::strerror(errno));
  std::string text;
  if (const auto size = std::filesystem::file_size(path, problem); !problem) text.reserve(size);
  // Read to the end rather than to the announced size: pipes and /proc files announce none.
  std::vector<char> block(1 << 16);
  while (const std::size_t got = std::fread(block.data(), 1, block.size(), file.get())) text.append(block.data(), got);
  if (std::ferror(file.get()) != 0) fail(std::string("cannot be read: ") + std::strerror(errno));
  if (text.empty()) fail("is empty");
  return text;
}

/// Several text files one after another, with a newline where one ends without.
inline std::string read_texts(std::span<const std::string> paths) {
  std::string all;
  for (const std::string& path : paths) {
    if (!all.empty() && all.back() != '\n') all += '\n';
    all += read_text(path);
  }
  return all;
}

/// A token is a byte: 256 of them, any text, no training, nothing that cannot be decoded.
struct byte_tokenizer {
  using token = std::uint8_t;
  static constexpr std::size_t vocabulary = 256;

  static std::vector<token> encode(std::string_view text) { return {text.begin(), text.end()}; }
  static std::string decode(std::span<const token> tokens) { return {tokens.begin(), tokens.end()}; }
};

}  // namespace gradus
