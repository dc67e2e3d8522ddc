#pragma once
// The numbers 0, 1, 2, ... as a tensor, computed on the device, so that a step can be captured as a graph.

#include <cstdint>

#include "../../core/config.hpp"
#include "../../tensor/creation.hpp"
#include "../elementwise/arithmetic.hpp"
#include "cumsum.hpp"

namespace gradus::detail {

/// 0, 1, ..., N-1; of bounded N as many as `of` says.
template <index_t N, class D>
GRADUS_OF_BUILD constexpr auto numbers(context<D>& ctx, const extents_of<shape<N>>& of = {}) {
  return cumsum<0>(ones<std::int64_t, shape<N>>(ctx, of)) - 1;
}

}  // namespace gradus::detail
