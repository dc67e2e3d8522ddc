#pragma once
// The trainer's flags.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <gradus/data/dataset_files.hpp>
#include <gradus/io/config_file.hpp>

#include "config.hpp"
#include "training.hpp"

namespace gpt {

struct options {
  gr::dataset_files files;  ///< --data and what belongs to it
  std::string order = "random";
  int workers = 1;      ///< threads that make batches ahead; 0: none
  long long steps = 0;  ///< 0: as many as fit into the minutes
  double minutes = 0;   ///< 0: as long as the steps take
  double lr = usual_rate<decltype(optimizer<precision::store, gr::cpu, precision::gradient>::options)>();
  std::string schedule = "cosine";
  long long warmup = 100;
  double weight_decay = 0.1;
  double clip = 1;
  double dropout = 0;
  std::uint64_t seed = 1;
  int threads = 0;  ///< 0: all cores
  int gpu = 0;      ///< number of the GPU that trains; another run of the same configuration may take another
  int accumulate = 1;
  std::size_t batch_tokens = 0;  ///< an update, from which `accumulate` follows; 0: not given
  std::string out;
  std::string init;           ///< model to start from: a file, or a folder of a run or of Hugging Face's; empty: none
  std::string resume;         ///< run folder to resume; empty: a new run
  gr::config_entries config;  ///< every flag that repeats this run, sizes included, but --out and --resume
  long long eval_every = 100;
  int sample = 400;
  bool save = true;
  double save_seconds = 300;  ///< between checkpoints; 0: not by the clock
  long long save_steps = 0;   ///< between checkpoints; 0: not by steps
  double save_retry = 300;    ///< seconds
  int keep_checkpoints = 2;
  std::string checkpoint = "none";
  std::string memory_budget;  ///< empty: none
  std::string memory_report;  ///< file; empty: none
  bool profile = false;       ///< tell where the time of the steps went
  bool tensorboard = false;   ///< write event files
  bool anomaly = false;       ///< end at the first operation that computes something that is not finite
  bool graph = false;         ///< submit each step to the GPU as one graph
  std::string tune_products;  ///< file of the fastest algorithms of a GPU's products; empty: the library's own choice
  bool plan = false;          ///< say what memory the run takes, and end

  /// The part that shapes a step.
  step_options step() const {
    return {.dropout = dropout,
            .clip = clip,
            .accumulate = accumulate,
            .seed = seed,
            .adamw = {.lr = lr, .weight_decay = weight_decay}};
  }
  /// How much of the run is behind it after so many steps and seconds: by steps or by the clock, whichever is further.
  double fraction(long long step, double elapsed) const {
    const double by_steps = steps > 0 ? static_cast<double>(step) / static_cast<double>(steps) : 0;
    return minutes > 0 ? std::max(by_steps, elapsed / (60 * minutes)) : by_steps;
  }
  /// The learning rate of a step, `fraction` of the run being behind it: it rises over --warmup steps, or over the
  /// first tenth of a run that is shorter than that.
  double rate(long long step, double fraction) const {
    const double steps_risen = static_cast<double>(step + 1) / static_cast<double>(std::max(warmup, 1LL));
    return std::min(1.0, std::max(steps_risen, 10 * fraction)) * learning_rate()(fraction);
  }
  /// The learning rate over a run, from 0 to 1; the warm-up comes on top.
  std::function<double(double)> learning_rate() const {
    const double low = 0.05 * lr;
    if (schedule == "constant") return gr::warmup_constant{.peak = lr, .warmup = 0};
    if (schedule == "linear") return gr::warmup_linear{.peak = lr, .low = low, .warmup = 0, .total = 1};
    if (schedule == "wsd") return gr::warmup_stable_decay{.peak = lr, .low = low, .warmup = 0, .total = 1};
    return gr::warmup_cosine{.peak = lr, .low = low, .warmup = 0, .total = 1};
  }
};

/// Throws gradus::error where the data's tokens, of which there may be `tokens` (0: unknown), are too many for the
/// model.
void check_vocabulary(std::size_t tokens);

/// Most batches a step: a plan follows every one of them, and 1000 take it seconds.
inline constexpr int most_batches = 1000;

/// Most tokens an update.
inline constexpr std::size_t most_batch_tokens = std::size_t{1} << 31;

/// Reads the command line. Throws bad_flag; returns nothing where --help was asked for and printed.
std::optional<options> read_options(int argc, char** argv, const std::string& what);

}  // namespace gpt
