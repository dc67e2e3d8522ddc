#pragma once
// The memory of a step as a trace for Perfetto.

#include <filesystem>

#include "../core/config.hpp"
#include "../core/error.hpp"
#include "../memory/trace.hpp"

namespace gradus {

/// Writes a trace for ui.perfetto.dev and chrome://tracing: operations as spans, live bytes by category as counters,
/// one process for the plan (one microsecond an event) and, unless null, one for the measured step. Throws
/// gradus::error, and leaves an old file unchanged, if the file cannot be written.
void write_perfetto(const std::filesystem::path& path, const step_trace& planned, const step_trace* measured);

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "perfetto.ipp"
#endif
