#pragma once
// Byte pair encoding, learned: which pairs of tokens to merge (Sennrich et al. 2016).

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "../core/config.hpp"

namespace gradus::detail {

/// A word as tokens, and how often it occurs.
struct symbol_word {
  std::vector<std::int32_t> symbols;
  std::int64_t count;
};

/// Options of learn_merges().
struct merge_training {
  std::size_t vocabulary = 0;              ///< tokens, of which some are there at first
  std::uint64_t min_frequency = 0;         ///< rarer pairs are not merged
  std::string prefix = {};                 ///< begins each token that continues a word
  std::vector<std::string> reserved = {};  ///< texts of no token
};

/// Merges the most frequent pair of neighbours, and of equally frequent ones that with the smaller left, then right id,
/// until the vocabulary is full or no pair is frequent enough. Appends to `tokens` what the pairs become. The merges,
/// in the order in which they are applied.
std::vector<std::array<std::string, 2>> learn_merges(std::vector<symbol_word> words, std::vector<std::string>& tokens,
                                                     const merge_training& options);

}  // namespace gradus::detail

#ifndef GRADUS_COMPILED
#include "pair_merges.ipp"
#endif
