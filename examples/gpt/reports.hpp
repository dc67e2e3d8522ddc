#pragma once
// What a run is asked for, and what it reports besides its steps.

#include <cstdint>
#include <filesystem>
#include <string>

#include <gradus/report/profile.hpp>
#include <gradus/run/run.hpp>

#include "memory.hpp"
#include "options.hpp"
#include "text_data.hpp"

namespace gpt {

/// The flags as the run's own. A new run's folder gets the picture of the planned memory first, which may fail, then
/// the file `config`, which repeats the run, and the tokenizer. All must outlive the run.
gr::run_options run_of(const options& o, const run_data& data, const chosen_memory& plan, double machine_flops,
                       const gr::text_settings& said);

void report_start(gr::run& run, const options& o, const chosen_memory& plan, const run_data& data,
                  const std::string& machine, const std::string& note, const std::string& starting_from);
void report_end(gr::run& run, const chosen_memory& plan, const run_data& data, double peak_mib);
void report_profile(gr::run& run, const gr::profiler& profile, const gr::machine_rates& rates);

}  // namespace gpt
