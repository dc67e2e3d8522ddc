#pragma once
// Whether the ranks of a communicator have called the same collective, and what to say if not.

#include <span>
#include <string>

#include "../core/config.hpp"
#include "communicator.hpp"

namespace gradus {

/// A collective in words: `all_reduce of 1000 f32 (sum, tree)`.
std::string describe(const collective& what);

/// True if two ranks' calls belong together: the same kind, type, counts, root, tag and options. Counts of all_to_all differ
/// between ranks and are not compared.
bool same_call(const collective& a, const collective& b);

/// Empty if the calls of all ranks belong together; otherwise a line that names the ranks and what each called.
std::string disagreement(std::span<const collective> calls);

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "describe.ipp"
#endif
