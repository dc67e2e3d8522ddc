#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <span>
#include <string>
#include <utility>

#include "../core/error.hpp"
#include "../io/atomic_file.hpp"
#include "../io/mapped_file.hpp"

namespace gradus {

/// How a file of tokens of 16 bits, little-endian, is laid out.
enum class shard_layout {
  nanogpt,  ///< nothing but tokens
  llm_c,    ///< a header of 256 int32: 20240520, version 1, the number of tokens, zeros; then the tokens
};

namespace detail {
inline constexpr std::int32_t llm_c_magic = 20240520;
inline constexpr std::int32_t llm_c_version = 1;
inline constexpr std::int32_t llm_c_magic_of_32_bits = 20240801;  // the one with tokens of 32 bits
using llm_c_header = std::array<std::int32_t, 256>;
}  // namespace detail

/// A file of tokens, mapped into memory (see mapped_file). The layout is found by the first bytes: as tokens, those of
/// llm.c's header would be 55432 and 308, and GPT-2 has no token 55432.
///
/// Throws gradus::error, in one line that names the file, where it is no whole number of tokens, empty, or not as long
/// as its header says, or where the header has another version or a kind that is not read.
class token_shard {
 public:
  using token = std::uint16_t;

  explicit token_shard(const std::filesystem::path& path) : file_(path) {
    static_assert(std::endian::native == std::endian::little, "token_shard: a little-endian machine is needed");
    std::int32_t first = 0;
    if (file_.size() >= sizeof first) std::memcpy(&first, file_.bytes().data(), sizeof first);
    if (first == detail::llm_c_magic_of_32_bits)
      fail("holds tokens of 32 bits (llm.c's layout for Llama 3); only those of 16 bits are read");
    if (first == detail::llm_c_magic) check_header();
    else if (file_.size() % sizeof(token) != 0)
      fail(std::to_string(file_.size()) + " bytes is not a whole number of uint16 tokens");
    if (tokens().empty()) fail("holds no tokens");
  }

  const std::filesystem::path& path() const { return file_.path(); }
  shard_layout layout() const { return begin_ == 0 ? shard_layout::nanogpt : shard_layout::llm_c; }
  /// Valid as long as this object, wherever it is moved to.
  std::span<const token> tokens() const {
    // A mapping begins at a page, memory from the heap is aligned for any type, and the header takes 1024 bytes.
    return {reinterpret_cast<const token*>(file_.bytes().data() + begin_), (file_.size() - begin_) / sizeof(token)};
  }

  /// Takes the tokens that were looked at out of the process's memory; see mapped_file::release.
  void release() const { file_.release(); }

  /// Reads the whole shard, and throws gradus::error where a token is not below `vocabulary`. Batches look at the
  /// tokens they hold, so nobody needs to call this for safety.
  void check_vocabulary(std::size_t vocabulary) const {
    const auto all = tokens();
    const auto bad = std::ranges::find_if(all, [=](token t) { return t >= vocabulary; });
    if (bad != all.end())
      fail("token " + std::to_string(bad - all.begin()) + " is " + std::to_string(*bad) + ", outside a vocabulary of " +
           std::to_string(vocabulary));
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw error(path().string() + ": " + what); }

  void check_header() {
    detail::llm_c_header header{};
    if (file_.size() < sizeof header)
      fail("ends within its header: " + std::to_string(file_.size()) + " bytes of 1024");
    std::memcpy(header.data(), file_.bytes().data(), sizeof header);
    if (header[1] != detail::llm_c_version)
      fail("has version " + std::to_string(header[1]) + " of llm.c's layout; only version 1 is read");
    if (header[2] < 0) fail("its header says " + std::to_string(header[2]) + " tokens");
    const std::uint64_t said = static_cast<std::uint64_t>(header[2]) * sizeof(token),
                        there = file_.size() - sizeof header;
    if (said != there)
      fail("its header says " + std::to_string(header[2]) + " tokens, which are " + std::to_string(said) +
           " bytes, and " + std::to_string(there) + " follow");
    begin_ = sizeof header;
  }

  mapped_file file_;
  std::size_t begin_ = 0;
};

/// Writes a file of tokens, some at a time. It appears whole with commit(), or not at all (see atomic_file). Throws
/// gradus::error where it cannot be written, or where it gets more tokens than its header can say.
class token_shard_writer {
 public:
  using token = token_shard::token;

  explicit token_shard_writer(const std::filesystem::path& path, shard_layout layout = shard_layout::nanogpt)
      : path_(path), layout_(layout), file_(path) {
    static_assert(std::endian::native == std::endian::little, "token_shard_writer: a little-endian machine is needed");
    if (layout_ == shard_layout::nanogpt) return;
    detail::llm_c_header header{};
    header[0] = detail::llm_c_magic;
    header[1] = detail::llm_c_version;
    file_.write(header.data(), sizeof header);
  }

  void write(std::span<const token> tokens) {
    constexpr std::uint64_t most = std::numeric_limits<std::int32_t>::max();
    if (layout_ == shard_layout::llm_c && tokens.size() > most - count_)
      throw error(path_.string() + ": llm.c's layout holds at most 2147483647 tokens; write several shards");
    file_.write(tokens.data(), tokens.size_bytes());
    count_ += tokens.size();
  }
  std::uint64_t count() const { return count_; }

  /// Puts the file in its place. Nothing may be written after it.
  void commit() {
    if (layout_ == shard_layout::llm_c) {
      const auto count = static_cast<std::int32_t>(count_);
      file_.overwrite(2 * sizeof(std::int32_t), &count, sizeof count);
    }
    file_.commit();
  }

 private:
  std::filesystem::path path_;
  shard_layout layout_;
  atomic_file file_;
  std::uint64_t count_ = 0;
};

}  // namespace gradus
