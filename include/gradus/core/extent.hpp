#pragma once
// The type of extents and element counts.

#include <cstddef>

namespace gradus {

/// Extents and element counts; unsigned, so that a template argument cannot be negative.
using index_t = std::size_t;

/// Reserved for run-time extents; no operation supports it yet.
inline constexpr index_t dyn = static_cast<index_t>(-1);

}  // namespace gradus
