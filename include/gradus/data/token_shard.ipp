#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <span>
#include <string_view>

#include "../io/text_file.hpp"
#include "token_shard.hpp"

namespace gradus {

namespace detail {
inline constexpr std::int32_t llm_c_magic = 20240520;
inline constexpr std::int32_t llm_c_version = 1;
inline constexpr std::int32_t llm_c_magic_of_32_bits = 20240801;  // the magic number of shards with 32-bit tokens
using llm_c_header = std::array<std::int32_t, 256>;
}  // namespace detail

GRADUS_IMPL token_shard::token_shard(const std::filesystem::path& path)
    : file_(path), begin_(detail::first_token_of_shard(path, file_.size(), file_.bytes())) {}

GRADUS_IMPL void token_shard::check_vocabulary(std::size_t vocabulary) const {
  token_sequence(tokens(), path().string()).check_vocabulary(vocabulary);
}

GRADUS_IMPL std::size_t detail::first_token_of_shard(const std::filesystem::path& path, std::size_t size,
                                                     std::span<const std::byte> head) {
  static_assert(std::endian::native == std::endian::little, "token_shard: a little-endian machine is needed");
  const auto fail = [&](const std::string& what) { throw error(path.string() + ": " + what); };
  llm_c_header header{};
  if (size == 0) fail("is empty");
  std::memcpy(header.data(), head.data(), std::min(head.size(), sizeof header));
  const std::string_view text(reinterpret_cast<const char*>(head.data()), head.size());
  refuse_other_formats(path, head);
  for (const std::string_view magic : {"\x93NUMPY", "BIN.TOK"})
    if (text.starts_with(magic))
      fail("begins with a header of " + std::string(magic == "BIN.TOK" ? "LLM.Q" : "NumPy") +
           "; only tokens of 16 bits, without a header or with llm.c's, are read: write them by "
           ".astype('uint16').tofile()");
  if (header[0] == llm_c_magic_of_32_bits)
    fail("holds tokens of 32 bits (llm.c's layout for Llama 3); only those of 16 bits are read");
  const bool has_header = header[0] == llm_c_magic;
  if (has_header) {
    if (size < sizeof header) fail("ends within its header: " + std::to_string(size) + " bytes of 1024");
    if (header[1] != llm_c_version)
      fail("has version " + std::to_string(header[1]) + " of llm.c's layout; only version 1 is read");
    if (header[2] < 0) fail("its header says " + std::to_string(header[2]) + " tokens");
    const std::uint64_t said = static_cast<std::uint64_t>(header[2]) * sizeof(token_shard::token),
                        there = size - sizeof header;
    if (said != there)
      fail("its header says " + std::to_string(header[2]) + " tokens, that is " + std::to_string(said) +
           " bytes, and " + std::to_string(there) + " follow");
  } else if (size % sizeof(token_shard::token) != 0) {
    fail(std::to_string(size) + " bytes is not a whole number of uint16 tokens");
  }
  if (const std::size_t words = std::min(head.size(), sizeof header) / 4; !has_header && words >= 8) {
    // Numbers of 32 bits below 65536 have zeros in every second word.
    const auto upper = [&](std::int32_t n) { return static_cast<std::uint32_t>(n) >> 16; };
    const auto all = std::span(header).first(words);
    if (std::ranges::none_of(all, upper) && std::ranges::any_of(all, [](std::int32_t n) { return n != 0; }))
      fail("every second token is 0: it seems to hold tokens of 32 bits, and only those of 16 bits are read");
  }
  const std::size_t begin = has_header ? sizeof header : 0;
  if (size == begin) fail("holds no tokens");
  return begin;
}

GRADUS_IMPL token_shard_writer::token_shard_writer(const std::filesystem::path& path, shard_layout layout)
    : path_(path), layout_(layout), file_(path) {
  static_assert(std::endian::native == std::endian::little, "token_shard_writer: a little-endian machine is needed");
  if (layout_ == shard_layout::nanogpt) return;
  detail::llm_c_header header{};
  header[0] = detail::llm_c_magic;
  header[1] = detail::llm_c_version;
  file_.write(header.data(), sizeof header);
}

GRADUS_IMPL void token_shard_writer::write(std::span<const token> tokens) {
  constexpr std::uint64_t most = std::numeric_limits<std::int32_t>::max();
  if (layout_ == shard_layout::llm_c && tokens.size() > most - count_)
    throw error(path_.string() + ": llm.c's layout holds at most 2147483647 tokens; write several shards");
  file_.write(tokens.data(), tokens.size_bytes());
  count_ += tokens.size();
}

GRADUS_IMPL void token_shard_writer::commit() {
  if (layout_ == shard_layout::llm_c) {
    const auto count = static_cast<std::int32_t>(count_);
    file_.overwrite(2 * sizeof(std::int32_t), &count, sizeof count);
  }
  file_.commit();
}

}  // namespace gradus
