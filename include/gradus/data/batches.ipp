#pragma once
#include <algorithm>
#include <bit>
#include <cstdio>

#include "batches.hpp"

namespace gradus {

namespace detail {

// Operations number their draws 0, 1, 2, … within a step; the last ordinal is free for windows.
inline constexpr std::uint32_t window_ordinal = 0xFFFFFFFFu;

GRADUS_IMPL std::uint64_t window_draw(std::uint64_t seed, std::uint32_t step, std::uint64_t row) {
  const auto words = random_key{seed, step, window_ordinal}.words(row);
  return (std::uint64_t{words[1]} << 32) | words[0];
}

GRADUS_IMPL std::size_t spread_start(std::size_t starts, std::size_t row, std::size_t rows) {
  const double place = rows > 1 ? static_cast<double>(row) / static_cast<double>(rows - 1) : 0.0;
  return static_cast<std::size_t>(place * static_cast<double>(starts - 1));
}

GRADUS_IMPL std::uint64_t shuffled(std::uint64_t i, std::uint64_t count, const random_key& key) {
  const auto half = std::max(1, (static_cast<int>(std::bit_width(count - 1)) + 1) / 2);
  const std::uint64_t mask = (std::uint64_t{1} << half) - 1;
  do {
    std::uint64_t left = i >> half, right = i & mask;
    for (std::uint64_t round = 0; round < 6; ++round)
      left = std::exchange(right, left ^ (key.words(round << 32 | right)[0] & mask));
    i = left << half | right;
  } while (i >= count);
  return i;
}

GRADUS_IMPL std::pair<std::size_t, std::size_t> find_place(const std::vector<std::size_t>& ends, std::size_t i) {
  const auto in = static_cast<std::size_t>(std::ranges::upper_bound(ends, i) - ends.begin());
  return {in, i - (in == 0 ? 0 : ends[in - 1])};
}

}  // namespace detail

GRADUS_IMPL sequence_split split_sequences(std::span<const token_sequence> sequences, std::size_t context,
                                           double validation_share) {
  if (!(validation_share > 0 && validation_share < 1))
    throw error("split_sequences: the validation share must be between 0 and 1");
  const auto for_training = [=](std::size_t n) {
    return static_cast<std::size_t>(static_cast<double>(n) * (1 - validation_share));
  };
  std::size_t total = 0;
  for (const auto& s : sequences) total += s.size();
  std::size_t left = for_training(total);
  sequence_split parts;
  for (const auto& s : sequences) {
    const std::size_t cut = std::min(left, s.size());
    left -= cut;
    if (cut > context) parts.train.push_back(s.part(0, cut));
    if (s.size() - cut > context) parts.validation.push_back(s.part(cut, s.size() - cut));
  }
  if (!parts.train.empty() && !parts.validation.empty()) return parts;
  if (sequences.size() != 1)
    throw error("too short: of " + std::to_string(total) + " tokens in " + std::to_string(sequences.size()) +
                " sequences, the part for " + (parts.train.empty() ? "training" : "validation") + " has no window of " +
                std::to_string(context) + " and the next token");
  std::size_t fewer = total, needed = std::size_t{1} << 53;  // for bisection
  while (needed - fewer > 1) {
    const std::size_t middle = fewer + (needed - fewer) / 2;
    const bool suffices = for_training(middle) > context && middle - for_training(middle) > context;
    (suffices ? needed : fewer) = middle;
  }
  char share[32];
  std::snprintf(share, sizeof share, "%g", validation_share);
  throw error(sequences.front().name() + ": too short: " + std::to_string(total) + " tokens; a context of " +
              std::to_string(context) + " needs at least " + std::to_string(needed) + " where a share of " + share +
              " is for validation (--validation)");
}

}  // namespace gradus
