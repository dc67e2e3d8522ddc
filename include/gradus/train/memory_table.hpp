#pragma once
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
// When the peak was: "linear, backward, request 12 of 40".
std::string peak_text(const step_summary& plan);

// An operation's row of the table, in both the terminal and the page: its name, runs by phase, FLOPs, bytes moved and
// saved.
std::array<std::string, 8> table_row(std::string_view name, const phase_total (&phases)[phase_count],
                                     std::size_t saved);
inline constexpr std::array<const char*, 8> table_head{"operation", "forward", "recompute", "backward",
                                                       "other",     "work",    "moved",     "saved"};

}  // namespace detail

/// A step's operations and its peak as a table of plain ASCII, 95 columns wide, or 80 or 40 with less in it where there
/// are fewer.
std::string memory_table(const step_summary& plan, std::size_t columns = 95);

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "memory_table.ipp"
#endif
