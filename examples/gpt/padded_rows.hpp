#pragma once
// Rows of a token table.

#include <gradus/core/extent.hpp>

namespace gpt {

/// The vocabulary rounded up to a multiple of 64, so that matrix products meet no odd edge.
constexpr gradus::index_t padded_rows(gradus::index_t vocabulary) { return (vocabulary + 63) / 64 * 64; }

}  // namespace gpt
