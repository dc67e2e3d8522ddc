#pragma once
// A step's memory in pictures: memory_table for the terminal, write_perfetto for Perfetto, write_memory_page for the
// browser.

#include <cstddef>
#include <filesystem>
#include <string_view>
#include <vector>

#include "../core/config.hpp"
#include "../core/error.hpp"
#include "../memory/trace.hpp"
#include "../plan/step_summary.hpp"
#include "memory_table.hpp"
#include "perfetto.hpp"
#include "trace_times.hpp"

namespace gradus {

/// Writes one self-contained HTML page: live bytes by category over the step, the peak by category, a table of the
/// operations, and, with `offsets` (the address of each block of the plan), a picture of the blocks over time.
/// `measured` may be null. Throws gradus::error, and leaves an old file unchanged, unless there is one offset for each
/// block and the file can be written.
void write_memory_page(const std::filesystem::path& path, std::string_view title, const step_trace& planned,
                       const step_trace* measured, const std::vector<std::size_t>& offsets = {});

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "memory_report.ipp"
#endif
