#pragma once
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

/// How a file of tokens of 16 bits, little-endian, is laid out.
enum class shard_layout {
  nanogpt,  ///< nothing but tokens
  llm_c,    ///< a header of 256 int32: 20240520, version 1, the number of tokens, zeros; then the tokens
};

/// A file of tokens, mapped into memory (see mapped_file). The layout is found by the first bytes: as tokens, those of
/// llm.c's header would be 55432 and 308, and GPT-2 has no token 55432.
///
/// Throws gradus::error, in one line that names the file, where it is no whole number of tokens, empty, or not as long
/// as its header says, or where the header has another version or a kind that is not read.
class token_shard {
 public:
  using token = std::uint16_t;

  explicit token_shard(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return file_.path(); }
  shard_layout layout() const { return begin_ == 0 ? shard_layout::nanogpt : shard_layout::llm_c; }
  /// Valid as long as this object, wherever it is moved to.
  std::span<const token> tokens() const {
    // A mapping begins at a page, memory from the heap is aligned for any type, and the header takes 1024 bytes.
    return {reinterpret_cast<const token*>(file_.bytes().data() + begin_), (file_.size() - begin_) / sizeof(token)};
  }

  /// Takes the tokens that were looked at out of the process's memory; see mapped_file::release.
  void release() const { file_.release(); }

  /// Reads the whole shard, and throws gradus::error where a token is not below `vocabulary`. Batches check the
  /// tokens they hold; this finds such a token before training begins.
  void check_vocabulary(std::size_t vocabulary) const;

 private:
  mapped_file file_;
  std::size_t begin_;
};

namespace detail {
/// The byte of a shard at which its tokens begin; `head` are its first 1024 bytes, or all. Throws as token_shard does.
std::size_t first_token_of_shard(const std::filesystem::path& path, std::size_t size, std::span<const std::byte> head);
}  // namespace detail

/// Writes a file of tokens, some at a time. It appears whole with commit(), or not at all (see atomic_file). Throws
/// gradus::error where it cannot be written, or where it gets more tokens than its header can say.
class token_shard_writer {
 public:
  using token = token_shard::token;

  explicit token_shard_writer(const std::filesystem::path& path, shard_layout layout = shard_layout::nanogpt);

  void write(std::span<const token> tokens);
  std::uint64_t count() const { return count_; }

  /// Puts the file in its place. Nothing may be written after it.
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
