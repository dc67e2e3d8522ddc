#pragma once
// A unigram language model of words, learned: its pieces and their probabilities (Kudo 2018).

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "../core/config.hpp"

namespace gradus::detail {

/// A word of UTF-8, and how often it occurs.
struct counted_word {
  std::string text;
  std::uint64_t count;
};

/// How often each character occurs in words.
std::map<std::string, std::uint64_t, std::less<>> count_characters(const std::vector<counted_word>& words);

/// Options of learn_pieces().
struct piece_training {
  std::size_t pieces = 0;
  std::uint64_t min_frequency = 0;         ///< rarer pieces are no candidates, but for characters
  std::vector<std::string> reserved = {};  ///< texts of no piece
};

/// Pieces of words with the logarithms of their probabilities, most probable first: all characters, which must not be
/// more than the pieces wanted, and the parts of words, of up to 16 characters, with which the words are most probable.
/// Begins with the million most frequent parts, as Hugging Face's UnigramTrainer does; again and again, fits the
/// probabilities by two steps of expectation and maximisation, and keeps the three quarters of the pieces without which
/// the words would lose most.
std::vector<std::pair<std::string, double>> learn_pieces(const std::vector<counted_word>& words,
                                                         const piece_training& options);

}  // namespace gradus::detail

#ifndef GRADUS_COMPILED
#include "unigram_pieces.ipp"
#endif
