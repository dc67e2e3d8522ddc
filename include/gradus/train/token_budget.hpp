#pragma once
#include <algorithm>
#include <cstddef>

#include "../core/error.hpp"

namespace gradus {

/// An update's tokens as batches: `accumulate` batches of `batch` sequences, whose gradients are summed up before the
/// optimizer's step.
struct token_split {
  std::size_t batch = 1;
  std::size_t accumulate = 1;

  std::size_t sequences() const { return batch * accumulate; }
};

/// How many batches of `batch` sequences of `context` tokens come nearest to `tokens` an update; at least 1.
constexpr std::size_t batches_for(std::size_t tokens, std::size_t batch, std::size_t context) {
  const std::size_t each = batch * context;
  return std::max<std::size_t>((tokens + each / 2) / each, 1);
}

/// Splits `tokens` an update into batches of at most `largest` sequences of `context` tokens: as few batches as that
/// takes, all of one size. Where that would miss the number of sequences, the next smaller batch that divides it is
/// taken, if it is not below half of `largest`.
constexpr token_split split_tokens(std::size_t tokens, std::size_t context, std::size_t largest) {
  if (largest == 0 || context == 0) throw error("split_tokens: batch and context must be above 0");
  const std::size_t sequences = batches_for(tokens, 1, context);
  for (std::size_t batch = std::min(largest, sequences); 2 * batch >= std::min(largest, sequences); --batch)
    if (sequences % batch == 0) return {batch, sequences / batch};
  const std::size_t accumulate = (sequences + largest - 1) / largest;
  return {std::min(largest, (sequences + accumulate - 1) / accumulate), accumulate};
}

/// Bytes of a training step that grow with the batch alike from one sequence more to the next, as those of a model do
/// whose every activation has the batch for its first extent: known at two batches, they are known at all larger ones,
/// up to the alignment of blocks.
struct bytes_by_batch {
  std::size_t batch = 2;            ///< at which `bytes` are needed
  std::size_t bytes = 0;            ///< at `batch`
  std::size_t bytes_of_a_next = 0;  ///< for each sequence more

  constexpr std::size_t at(std::size_t sequences) const {
    return sequences < batch ? bytes : bytes + (sequences - batch) * bytes_of_a_next;
  }
  /// The largest batch that takes at most `budget` bytes; 1 where not even `batch` does.
  constexpr std::size_t largest_within(std::size_t budget) const {
    if (budget < bytes) return 1;
    return bytes_of_a_next == 0 ? batch : batch + (budget - bytes) / bytes_of_a_next;
  }
};

}  // namespace gradus
