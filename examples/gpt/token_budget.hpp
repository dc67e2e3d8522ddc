#pragma once
// Tokens of an update as micro-batches; the largest batch within a memory budget.

#include <algorithm>
#include <cstddef>

#include <gradus/core/error.hpp>

namespace gpt {

/// The tokens of an update as `accumulate` micro-batches of `batch` sequences.
struct token_split {
  std::size_t batch = 1;
  std::size_t accumulate = 1;

  std::size_t sequences() const { return batch * accumulate; }
};

/// The number of batches of `batch` sequences of `context` tokens that comes nearest to `tokens`; at least 1.
constexpr std::size_t batches_for(std::size_t tokens, std::size_t batch, std::size_t context) {
  const std::size_t each = batch * context;
  return std::max<std::size_t>((tokens + each / 2) / each, 1);
}

/// Splits `tokens` into the fewest batches of one size, of at most `largest` sequences of `context` tokens each. If
/// those miss the number of sequences, uses the next smaller batch that divides it, unless that is below half of
/// `largest`.
constexpr token_split split_tokens(std::size_t tokens, std::size_t context, std::size_t largest) {
  if (largest == 0 || context == 0) throw gradus::error("split_tokens: batch and context must be above 0");
  const std::size_t sequences = batches_for(tokens, 1, context);
  for (std::size_t batch = std::min(largest, sequences); 2 * batch >= std::min(largest, sequences); --batch)
    if (sequences % batch == 0) return {batch, sequences / batch};
  const std::size_t accumulate = (sequences + largest - 1) / largest;
  return {std::min(largest, (sequences + accumulate - 1) / accumulate), accumulate};
}

/// The bytes of a training step as a linear function of the batch. That is exact, up to the alignment of blocks, for a
/// model whose activations all have the batch as their first extent.
struct bytes_by_batch {
  std::size_t batch = 2;            ///< a batch
  std::size_t bytes = 0;            ///< that it takes
  std::size_t bytes_of_a_next = 0;  ///< for each further sequence

  constexpr std::size_t at(std::size_t sequences) const {
    return sequences < batch ? bytes : bytes + (sequences - batch) * bytes_of_a_next;
  }
  /// The largest batch that takes at most `budget` bytes; 1 if `batch` takes more.
  constexpr std::size_t largest_within(std::size_t budget) const {
    if (budget < bytes) return 1;
    return bytes_of_a_next == 0 ? batch : batch + (budget - bytes) / bytes_of_a_next;
  }
};

}  // namespace gpt
