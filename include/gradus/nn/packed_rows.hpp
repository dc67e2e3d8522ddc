#pragma once
// Documents that lie one behind the other in the rows of a batch, so that no padding is computed.

#include <cstdint>
#include <type_traits>

#include "../core/config.hpp"
#include "../core/extent.hpp"
#include "../tensor/tensor.hpp"

namespace gradus::nn {

/// Rows of a batch that are one document each, whose positions count from 0.
struct whole_rows {
  index_t documents = 1;  ///< in each; without a member, g++ warns where a closure keeps it
};

/// Rows of T positions, each a document behind the other. B and T may be bounds.
template <class D, index_t B, index_t T>
struct packed_rows {
  tensor<std::int32_t, shape<B, T, 2>, D> documents;  ///< of each position, where its document begins and ends
  tensor<std::int32_t, shape<B, T>, D> positions;     ///< within the document
};

template <class Rows>
inline constexpr bool is_packed = !std::is_same_v<Rows, whole_rows>;

}  // namespace gradus::nn
