#pragma once
// What the trainer says at the start and at the end of a run.

#include <string>

#include <gradus/train/run_reporter.hpp>

#include "memory.hpp"
#include "options.hpp"

namespace gr = gradus;

namespace gpt {

/// Writes the configuration that repeats a run into its folder: the file config.
void write_config(const std::filesystem::path& folder, const options& o);

/// What a run begins with.
struct run_start {
  std::size_t parameters = 0;
  std::size_t tokens = 0;  ///< of all the data
  bool bytes = true;       ///< each of them is a byte of text
  std::string machine;     ///< that it runs on
  std::string note;        ///< of its threads; empty: none
  double machine_flops = 0;
  long long resumed_after = -1;  ///< step; below 0: a new run
  std::string starting_from;     ///< what the run is to say of that; empty: nothing
  double planned_rate = 0;  ///< learning rate that the next step would have had before it was resumed; 0: not known
  double rate = 0;          ///< that it has now
};

/// Shows it, with hints where a size of the model wastes time, and logs it where the run is new.
void report_start(gr::run_reporter& report, const std::filesystem::path& folder, const options& o,
                  const chosen_memory& memory, const run_start& start);

/// What a run came to.
struct run_end {
  double validation = 0;     ///< nats a token
  double bytes_a_token = 1;  ///< 0: not known
  long long steps = 0;
  std::string saved;  ///< file; empty: none
  bool scales_loss = false;
  double loss_scale = 1;
  std::size_t skipped = 0;  ///< updates whose gradients overflowed
  double peak_mib = 0;      ///< of the process, or of the GPU
};
void report_end(gr::run_reporter& report, const chosen_memory& memory, const run_end& end);

}  // namespace gpt
