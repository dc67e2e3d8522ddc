#pragma once
// Files of tokens, in the formats of nanoGPT and llm.c.

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

/// The layout of a file of little-endian tokens. A header has 256 int32: a magic number, a version, the number of
/// tokens, zeros.
enum class shard_layout {
  nanogpt,   ///< only tokens, of 16 bits
  llm_c,     ///< a header (20240520, version 1), then tokens of 16 bits
  llm_c_32,  ///< llm.c's for Llama 3: a header (20240801, version 7), then tokens of 32 bits
};

/// A file of tokens, mapped into memory (see mapped_file). Recognizes llm.c's headers: they begin with no GPT-2 token.
///
/// Throws gradus::error, which names the file, if its size is 0, not a whole number of tokens, or not the size in its
/// header, or if the header has an unsupported version or kind.
class token_shard {
 public:
  explicit token_shard(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return file_.path(); }
  shard_layout layout() const { return layout_; }
  /// The tokens, of 16 or of 32 bits. Valid during the lifetime of this object, also after moves.
  token_sequence tokens() const;

  /// Releases the pages that were read from the process's memory; see mapped_file::release.
  void release() const { file_.release(); }

  /// Reads the whole shard; throws gradus::error if a token is not below `vocabulary`. For a check before training.
  void check_vocabulary(std::size_t vocabulary) const;

 private:
  mapped_file file_;
  shard_layout layout_;
};

namespace detail {
/// The layout of a shard; `head` are its first 1024 bytes, or all. Throws like token_shard.
shard_layout layout_of_shard(const std::filesystem::path& path, std::size_t size, std::span<const std::byte> head);
/// Where the tokens begin, in bytes.
constexpr std::size_t first_token_of_shard(shard_layout layout) { return layout == shard_layout::nanogpt ? 0 : 1024; }
constexpr bool has_wide_tokens(shard_layout layout) { return layout == shard_layout::llm_c_32; }
}  // namespace detail

/// Writes a file of tokens in parts. The file appears complete at commit(), or not at all (see atomic_file). Throws
/// gradus::error if it cannot be written, or if a token or their number does not fit into the layout.
class token_shard_writer {
 public:
  explicit token_shard_writer(const std::filesystem::path& path, shard_layout layout = shard_layout::nanogpt);

  void write(std::span<const std::uint16_t> tokens);
  void write(std::span<const std::int32_t> tokens);
  std::uint64_t count() const { return count_; }

  /// Moves the file into its place. Nothing may be written afterwards.
  void commit();

 private:
  template <class Stored, class Token>
  void store(std::span<const Token> tokens);

  std::filesystem::path path_;
  shard_layout layout_;
  atomic_file file_;
  std::uint64_t count_ = 0;
};

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "token_shard.ipp"
#endif
