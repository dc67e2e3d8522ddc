#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <gradus/plan/occupied_offsets.hpp>
#include <random>
#include <vector>

namespace {

struct block {
  std::size_t offset, bytes, from, until;
};

// First fit by its definition: the lowest offset, of 0 and the ends of blocks, that no block met in time reaches into.
std::size_t first_fit(const std::vector<block>& blocks, std::size_t bytes, std::size_t from, std::size_t until) {
  std::vector<std::size_t> candidates{0};
  for (const block& b : blocks) candidates.push_back(b.offset + b.bytes);
  std::sort(candidates.begin(), candidates.end());
  for (const std::size_t offset : candidates)
    if (std::none_of(blocks.begin(), blocks.end(), [&](const block& b) {
          return b.from < until && from < b.until && b.offset < offset + bytes && offset < b.offset + b.bytes;
        }))
      return offset;
  return static_cast<std::size_t>(-1);
}

}  // namespace

TEST_CASE(
    "the lowest gap is that of a search through all blocks, for blocks of any size and life, also where they overlap") {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    const std::size_t moments = 1 + seed % 37;
    gradus::detail::occupied_offsets occupied(moments);
    for (const int round : {0, 1}) {
      std::vector<block> blocks;
      for (int i = 0; i < 60; ++i) {
        const std::size_t from = random() % moments, until = from + 1 + random() % (moments - from);
        const std::size_t bytes = 1 + random() % (i % 3 == 0 ? 50 : 5);
        const std::size_t gap = occupied.lowest_gap(bytes, from, until);
        CAPTURE(seed);
        CAPTURE(round);
        CAPTURE(i);
        REQUIRE(gap == first_fit(blocks, bytes, from, until));
        const std::size_t offset = random() % 4 == 0 ? random() % 100 : gap;
        occupied.take(offset, bytes, from, until);
        blocks.push_back({offset, bytes, from, until});
      }
      occupied.clear();  // and everything is free again
    }
  }
}
