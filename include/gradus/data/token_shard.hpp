#pragma once
// Files of 16-bit tokens, in the formats of nanoGPT and llm.c.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "../core/config.hpp"
#include "../core/error.hpp"
#include "../io/atomic_file.hpp"
#include "../io/mapped_file.hpp"
#include "tokens.hpp"

namespace gradus {

/// The layout of a file of 16-bit little-endian tokens.
enum class shard_layout {
  nanogpt,  ///< only tokens
  llm_c,    ///< a header of 256 int32: 20240520, version 1, the number of tokens, zeros; then the tokens
};

/// A file of tokens, mapped into memory (see mapped_file). Recognizes llm.c's header: it begins with no GPT-2 token.
///
/// Throws gradus::error, which names the file, if its size is 0, not a whole number of tokens, or not the size in its
/// header, or if the header has an unsupported version or kind.
class token_shard {
 public:
  using token = std::uint16_t;

  explicit token_shard(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return file_.path(); }
  shard_layout layout() const { return begin_ == 0 ? shard_layout::nanogpt : shard_layout::llm_c; }
  /// Valid during the lifetime of this object, also after moves.
  std::span<const token> tokens() const {
    // Aligned: a mapping begins at a page, heap memory is aligned for any type, and the header has 1024 bytes.
    return {reinterpret_cast<const token*>(file_.bytes().data() + begin_), (file_.size() - begin_) / sizeof(token)};
  }

  /// Releases the pages that were read from the process's memory; see mapped_file::release.
  void release() const { file_.release(); }

  /// Reads the whole shard; throws gradus::error if a token is not below `vocabulary`. For a check before training.
  void check_vocabulary(std::size_t vocabulary) const;

 private:
  mapped_file file_;
  std::size_t begin_;
};

namespace detail {
/// The offset of a shard's tokens; `head` are its first 1024 bytes, or all. Throws like token_shard.
std::size_t first_token_of_shard(const std::filesystem::path& path, std::size_t size, std::span<const std::byte> head);
}  // namespace detail

/// Writes a file of tokens in parts. The file appears complete at commit(), or not at all (see atomic_file). Throws
/// gradus::error if it cannot be written, or has more tokens than its header can represent.
class token_shard_writer {
 public:
  using token = token_shard::token;

  explicit token_shard_writer(const std::filesystem::path& path, shard_layout layout = shard_layout::nanogpt);

  void write(std::span<const token> tokens);
  std::uint64_t count() const { return count_; }

  /// Moves the file into its place. Nothing may be written afterwards.
  void commit();

 private:
  std::filesystem::path path_;
  shard_layout layout_;
  atomic_file file_;
  std::uint64_t count_ = 0;
};

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "token_shard.ipp"
#endif
