// Rows of tokens in which documents lie one behind the other.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "seed.hpp"

namespace gradus_test {

/// Documents of random lengths, many of them near the sizes of blocks, and here and there positions of none, as the
/// option `documents` of attention has them: [sequences, times, 2].
inline std::vector<std::int32_t> draw_documents(std::size_t sequences, std::size_t times,
                                                unsigned seed = fresh_seed()) {
  std::mt19937 engine(seed);
  const auto below = [&](int n) { return std::uniform_int_distribution<int>(0, n - 1)(engine); };
  constexpr int lengths[] = {1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 128, 129};
  std::vector<std::int32_t> pairs;
  const auto most = static_cast<int>(times);
  for (std::size_t b = 0; b < sequences; ++b)
    for (int t = 0; t < most;) {
      const int drawn = below(2) == 0 ? 1 + below(40) : lengths[below(16)], length = std::min(drawn, most - t);
      const bool none = below(6) == 0;
      const int anywhere = below(most + 1);
      for (int i = 0; i < length; ++i) pairs.insert(pairs.end(), {none ? anywhere : t, none ? anywhere : t + length});
      t += length;
    }
  return pairs;
}

/// The position of each token in its document, and 0 outside of documents: [sequences, times].
inline std::vector<std::int32_t> positions_in(const std::vector<std::int32_t>& documents, std::size_t times) {
  std::vector<std::int32_t> positions(documents.size() / 2);
  for (std::size_t i = 0; i < positions.size(); ++i)
    if (documents[2 * i] < documents[2 * i + 1]) positions[i] = static_cast<std::int32_t>(i % times) - documents[2 * i];
  return positions;
}

}  // namespace gradus_test
