#pragma once
// Pairs of numbers, and what stands for each of them.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace gradus::detail {

/// An open-addressing table, at most half full, from pairs of numbers to a rank and a result.
class pair_table {
 public:
  struct entry {
    std::uint64_t pair = empty;
    std::int32_t rank = 0;
    std::int32_t result = 0;
  };

  explicit pair_table(std::size_t most = 0) : entries_(std::bit_ceil(2 * most + 2)) {}

  /// Returns false if the pair exists.
  bool insert(std::int32_t left, std::int32_t right, std::int32_t rank, std::int32_t result) {
    const std::uint64_t pair = key(left, right);
    entry& e = entries_[place(pair)];
    if (e.pair != empty) return false;
    e = {pair, rank, result};
    return true;
  }
  /// Null if there is no such pair.
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

}  // namespace gradus::detail
