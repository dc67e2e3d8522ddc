#pragma once
#include <filesystem>

#include "../core/config.hpp"
#include "../core/error.hpp"
#include "../memory/trace.hpp"

namespace gradus {

/// Writes a trace that ui.perfetto.dev and chrome://tracing open: operations as spans, live bytes by category as
/// counters, one process for what was planned and, unless null, one for what was measured. A plan has one microsecond
/// an event. Throws gradus::error, and leaves an old file as it was, if the file cannot be written.
void write_perfetto(const std::filesystem::path& path, const step_trace& planned, const step_trace* measured);

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "perfetto.ipp"
#endif
