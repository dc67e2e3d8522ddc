#pragma once
#include <cstddef>

namespace gradus {

/// Extents and element counts. Unsigned, so that a template argument cannot be negative.
using index_t = std::size_t;

/// Reserved for an extent known only at run time; no operation accepts it yet.
inline constexpr index_t dyn = static_cast<index_t>(-1);

}  // namespace gradus
