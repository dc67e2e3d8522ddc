#pragma once
// What a byte-level BPE looks things up in.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "../core/config.hpp"

namespace gradus {

/// Two tokens that become one. Of all pairs in a word, the one that stands first in the list of merges is merged first.
struct bpe_merge {
  std::int32_t left = 0;
  std::int32_t right = 0;
  std::int32_t merged = 0;
};

/// A token that is found in a text by its spelling, before the text is split into words: `<|endoftext|>`.
struct added_token {
  std::string text;
  std::int32_t id = 0;
  bool special = true;
  /// Looked for after those that are not: what a tokenizer.json calls `normalized`.
  bool second = false;
};

namespace detail {

/// The merges by their pair: an open-addressing table, half empty at most.
class merge_table {
 public:
  struct entry {
    std::uint64_t pair = empty;
    std::int32_t rank = 0;
    std::int32_t merged = 0;
  };

  explicit merge_table(std::size_t merges = 0) : entries_(std::bit_ceil(2 * merges + 2)) {}

  /// False if the pair is there already.
  bool insert(const bpe_merge& m, std::int32_t rank) {
    const std::uint64_t pair = key(m.left, m.right);
    entry& e = entries_[place(pair)];
    if (e.pair != empty) return false;
    e = {pair, rank, m.merged};
    return true;
  }
  /// Nothing where these two are never merged.
  const entry* find(std::int32_t left, std::int32_t right) const {
    const entry& e = entries_[place(key(left, right))];
    return e.pair == empty ? nullptr : &e;
  }

 private:
  static constexpr std::uint64_t empty = std::numeric_limits<std::uint64_t>::max();
  static std::uint64_t key(std::int32_t left, std::int32_t right) {
    return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
  }
  std::size_t place(std::uint64_t pair) const {
    const std::uint64_t mixed = (pair ^ pair >> 29) * 0x9E3779B97F4A7C15u;
    std::size_t at = static_cast<std::size_t>(mixed >> 32) & (entries_.size() - 1);
    while (entries_[at].pair != pair && entries_[at].pair != empty) at = (at + 1) & (entries_.size() - 1);
    return at;
  }
  std::vector<entry> entries_;
};

/// Finds the added tokens of a text: the first one, and of several that begin there the longest.
class added_token_finder {
 public:
  struct match {
    std::size_t begin = std::string_view::npos;
    const added_token* token = nullptr;
  };

  added_token_finder() = default;
  added_token_finder(std::span<const added_token> tokens, bool second);

  bool any() const { return !order_.empty(); }
  match find(std::span<const added_token> tokens, std::string_view text) const;

 private:
  std::vector<std::size_t> order_;  // by length, the longest first
  std::string starts_;              // their first characters
};

}  // namespace detail

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "bpe_tables.ipp"
#endif
