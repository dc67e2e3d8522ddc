#pragma once
// What a training run was asked for.

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "config.hpp"
#include "data.hpp"
#include "training.hpp"

namespace bert {

/// What a run was asked for; options.cpp has the table of flags, with what each of them means.
struct options {
  text_files files;
  bool dummy = false;
  double epochs = 3;
  long long steps = 0;  ///< 0: as many as the epochs take
  double lr = gpt::usual_rate<decltype(optimizer<precision::store, gr::cpu, precision::gradient>::options)>() / 10;
  double warmup = 0.1;  ///< share of the steps
  double weight_decay = 0.01;
  double clip = 1;
  double dropout = 0.1;
  std::uint64_t seed = 1;
  int threads = 0;  ///< 0: all cores
  int accumulate = 1;
  std::string out, init, resume;
  long long eval_every = 0;   ///< steps; 0: after each epoch
  double save_seconds = 300;  ///< between checkpoints; 0: not by the clock
  long long save_steps = 0;   ///< between checkpoints; 0: not by steps
  std::string checkpoint = "none", memory_budget;
  bool plan = false;

  gpt::step_options step(gr::region_schedule regions = {}) const {
    return {.dropout = dropout,
            .clip = clip,
            .accumulate = accumulate,
            .seed = seed,
            .adamw = {.lr = lr, .beta2 = 0.999, .weight_decay = weight_decay},
            .regions = std::move(regions)};
  }
  /// The learning rate of a step: it rises over the warm-up, and falls to 0 at the end.
  double rate(long long step, long long of) const {
    const auto total = static_cast<double>(of);
    return gr::warmup_linear{
        .peak = lr, .low = 0, .warmup = std::floor(warmup * total), .total = total}(static_cast<double>(step));
  }
};

/// Reads the command line. Throws gr::bad_flag; returns nothing if --help was asked for and printed.
std::optional<options> read_options(int argc, char** argv);

}  // namespace bert
