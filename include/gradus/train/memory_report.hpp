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

/// Writes one self-contained HTML page, which needs no network: live bytes by category over the step with the peak and
/// the operation at the cursor, what the peak is made of, and a table of the operations; with `offsets` (the address of
/// each block of the plan) also a picture of which block lies where and when. `measured` may be null. Throws
/// gradus::error, and leaves an old file as it was, if there is not one offset for each block or the file cannot be
/// written.
void write_memory_page(const std::filesystem::path& path, std::string_view title, const step_trace& planned,
                       const step_trace* measured, const std::vector<std::size_t>& offsets = {});

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "memory_report.ipp"
#endif
