#pragma once
// Batches that were recorded with padding.

#include <cstddef>
#include <utility>

#include "bert/training.hpp"

/// The sequences of a batch that has them in rows of equal length.
inline bert::host_batch without_padding(bert::host_batch padded) {
  const std::size_t sequences = padded.lengths.size(), row = padded.tokens.size() / sequences;
  padded.segments.resize(padded.tokens.size());
  std::size_t n = 0;
  for (std::size_t s = 0; s < sequences; ++s)
    for (std::size_t t = 0; t < static_cast<std::size_t>(padded.lengths[s]); ++t, ++n) {
      padded.tokens[n] = padded.tokens[s * row + t];
      padded.segments[n] = padded.segments[s * row + t];
    }
  padded.tokens.resize(n);
  padded.segments.resize(n);
  return padded;
}
