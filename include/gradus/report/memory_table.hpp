#pragma once
// The memory of a step as a text table.

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "../core/config.hpp"
#include "../memory/activity.hpp"
#include "../plan/step_summary.hpp"

namespace gradus {

namespace detail {

std::string share_text(std::size_t part, std::size_t whole);
// The moment of the peak: "linear, backward, request 12 of 40".
std::string peak_text(const step_summary& plan);

// A row of the table, in the terminal and on the page: an operation's name, runs by phase, FLOPs, bytes moved and
// saved.
std::array<std::string, 8> table_row(std::string_view name, const phase_total (&phases)[phase_count],
                                     std::size_t saved);
inline constexpr std::array<const char*, 8> table_head{"operation", "forward", "recompute", "backward",
                                                       "other",     "work",    "moved",     "saved"};

}  // namespace detail

/// A step's operations and its peak as a table of plain ASCII, 95, 80 or 40 columns wide, with fewer figures in narrow
/// ones.
std::string memory_table(const step_summary& plan, std::size_t columns = 95);

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "memory_table.ipp"
#endif
