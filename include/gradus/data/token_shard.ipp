#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "../io/text_file.hpp"
#include "token_shard.hpp"

namespace gradus {

namespace detail {
using llm_c_header = std::array<std::int32_t, 256>;
/// The first two numbers of llm.c's header.
inline std::array<std::int32_t, 2> llm_c_mark(shard_layout layout) {
  return has_wide_tokens(layout) ? std::array{20240801, 7} : std::array{20240520, 1};
}
constexpr std::size_t token_bytes(shard_layout layout) { return has_wide_tokens(layout) ? 4 : 2; }
}  // namespace detail

GRADUS_IMPL token_shard::token_shard(const std::filesystem::path& path)
    : file_(path), layout_(detail::layout_of_shard(path, file_.size(), file_.bytes())) {}

GRADUS_IMPL token_sequence token_shard::tokens() const {
  const auto stored = file_.bytes().subspan(detail::first_token_of_shard(layout_));
  // Aligned: a mapping begins at a page, heap memory is aligned for any type, and the header has 1024 bytes.
  const auto as = [&]<class T>(T) {
    return token_sequence(std::span(reinterpret_cast<const T*>(stored.data()), stored.size() / sizeof(T)),
                          path().string());
  };
  return detail::has_wide_tokens(layout_) ? as(std::int32_t{}) : as(std::uint16_t{});
}

GRADUS_IMPL void token_shard::check_vocabulary(std::size_t vocabulary) const { tokens().check_vocabulary(vocabulary); }

GRADUS_IMPL shard_layout detail::layout_of_shard(const std::filesystem::path& path, std::size_t size,
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
           "; only tokens without a header or with llm.c's are read: write them by "
           ".astype('uint16').tofile()");
  shard_layout layout = shard_layout::nanogpt;
  for (const shard_layout one : {shard_layout::llm_c, shard_layout::llm_c_32})
    if (header[0] == llm_c_mark(one)[0]) layout = one;
  const bool has_header = layout != shard_layout::nanogpt;
  const std::size_t width = token_bytes(layout);
  if (has_header) {
    if (size < sizeof header) fail("ends within its header: " + std::to_string(size) + " bytes of 1024");
    if (const std::int32_t version = llm_c_mark(layout)[1]; header[1] != version)
      fail("has version " + std::to_string(header[1]) + " of llm.c's layout for tokens of " +
           std::to_string(8 * width) + " bits; only version " + std::to_string(version) + " is read");
    if (header[2] < 0) fail("its header says " + std::to_string(header[2]) + " tokens");
    const std::uint64_t said = static_cast<std::uint64_t>(header[2]) * width, there = size - sizeof header;
    if (said != there)
      fail("its header says " + std::to_string(header[2]) + " tokens, that is " + std::to_string(said) +
           " bytes, and " + std::to_string(there) + " follow");
  } else if (size % width != 0) {
    fail(std::to_string(size) + " bytes is not a whole number of uint16 tokens");
  }
  if (const std::size_t words = std::min(head.size(), sizeof header) / 4; !has_header && words >= 8) {
    // Numbers of 32 bits below 65536 have zeros in every second word.
    const auto upper = [&](std::int32_t n) { return static_cast<std::uint32_t>(n) >> 16; };
    const auto all = std::span(header).first(words);
    if (std::ranges::none_of(all, upper) && std::ranges::any_of(all, [](std::int32_t n) { return n != 0; }))
      fail(
          "every second token is 0: it seems to hold tokens of 32 bits, which are read only after llm.c's header for "
          "Llama 3");
  }
  if (size == first_token_of_shard(layout)) fail("holds no tokens");
  return layout;
}

GRADUS_IMPL token_shard_writer::token_shard_writer(const std::filesystem::path& path, shard_layout layout)
    : path_(path), layout_(layout), file_(path) {
  static_assert(std::endian::native == std::endian::little, "token_shard_writer: a little-endian machine is needed");
  if (layout_ == shard_layout::nanogpt) return;
  detail::llm_c_header header{};
  std::ranges::copy(detail::llm_c_mark(layout_), header.begin());
  file_.write(header.data(), sizeof header);
}

template <class Stored, class Token>
void token_shard_writer::store(std::span<const Token> tokens) {
  constexpr std::uint64_t most = std::numeric_limits<std::int32_t>::max();
  if (layout_ != shard_layout::nanogpt && tokens.size() > most - count_)
    throw error(path_.string() + ": llm.c's layout holds at most 2147483647 tokens; write several shards");
  count_ += tokens.size();
  if constexpr (std::is_same_v<Stored, Token>) {
    file_.write(tokens.data(), tokens.size_bytes());
  } else {
    std::vector<Stored> stored;
    stored.reserve(tokens.size());
    for (const Token t : tokens) {
      if (!std::in_range<Stored>(t))
        throw error(path_.string() + ": the token " + std::to_string(t) + " does not fit into " +
                    std::to_string(8 * sizeof(Stored)) + " bits");
      stored.push_back(static_cast<Stored>(t));
    }
    file_.write(stored.data(), stored.size() * sizeof(Stored));
  }
}

GRADUS_IMPL void token_shard_writer::write(std::span<const std::uint16_t> tokens) {
  if (detail::has_wide_tokens(layout_)) store<std::int32_t>(tokens);
  else store<std::uint16_t>(tokens);
}

GRADUS_IMPL void token_shard_writer::write(std::span<const std::int32_t> tokens) {
  if (detail::has_wide_tokens(layout_)) store<std::int32_t>(tokens);
  else store<std::uint16_t>(tokens);
}

GRADUS_IMPL void token_shard_writer::commit() {
  if (layout_ != shard_layout::nanogpt) {
    const auto count = static_cast<std::int32_t>(count_);
    file_.overwrite(2 * sizeof(std::int32_t), &count, sizeof count);
  }
  file_.commit();
}

}  // namespace gradus
