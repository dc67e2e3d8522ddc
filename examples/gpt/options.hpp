#pragma once
// What a training run was asked for. No model is known here: `gradus train` reads the same table before it compiles
// one.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <gradus/data/dataset_files.hpp>
#include <gradus/io/config_file.hpp>
#include <gradus/optim/learning_rate.hpp>

#include "../flags/flags.hpp"

namespace gpt {

/// What a run was asked for; options.cpp has the table of flags, with what each of them means.
struct options {
  gr::dataset_files files;
  std::string order = "random";
  std::string chat_format;  ///< of examples; empty: the one in the model's tokenizer_config.json
  std::string long_examples = "cut";
  int workers = 1;
  /// What the trainer is compiled for; 0 and empty: not given.
  std::string model, architecture, precision = "fp32", optimizer = "adamw", device = "cpu";
  int layers = 0, heads = 0, width = 0, context = 0, vocabulary = 0, batch = 0;
  int experts = 0, experts_per_token = 0, kv_heads = 0, hidden = 0, head_size = 0;
  std::string tied, biases;     ///< "0" or "1", and "2"; of a llama
  int lora = 0;                 ///< rank of adapters; 0: all parameters are trained
  std::string base = "stored";  ///< how adapters have the matrices below them
  std::string lora_on = "all";
  double lora_alpha = 0;  ///< 0: twice the rank
  double dpo = 0;         ///< beta of preferences; 0: the data are none
  double lora_dropout = 0;
  bool rslora = false;
  int gpu = 0;
  long long steps = 0;  ///< 0: as many as fit into the minutes
  double minutes = 0;   ///< 0: as long as the steps take
  double lr = 0;        ///< 0: the optimizer's usual one
  std::string schedule = "cosine";
  long long warmup = 100;
  double weight_decay = 0.1;
  double clip = 1, skip_spikes = 0;
  double dropout = 0;
  std::uint64_t seed = 1;
  int threads = 0;  ///< 0: all cores
  int accumulate = 1;
  std::uint64_t batch_tokens = 0;  ///< 0: not given
  int ranks = 1, rank = 0;         ///< of this run, and which of them this one is
  int leaves = 0;                  ///< 0: one a rank
  std::string shard = "nothing", sums = "tree";
  std::string out, init, resume;
  long long eval_every = 100;
  int early_stop = 0;          ///< validations; 0: never
  long long sample_every = 0;  ///< steps; 0: only at the end
  int sample = 400;
  std::vector<std::string> sample_prompts;  ///< empty: one sample, which begins with nothing
  bool save = true;
  double save_seconds = 300;  ///< between checkpoints; 0: not by the clock
  long long save_steps = 0;   ///< between checkpoints; 0: not by steps
  double save_retry = 300;    ///< seconds
  int keep_checkpoints = 2;
  std::string checkpoint = "none", memory_budget, memory_report;
  std::string offload;  ///< folder; empty: everything is in memory
  bool profile = false, tensorboard = false, anomaly = false, graph = false, plan = false;
  std::string tune_products;
  gr::config_entries config;   ///< repeats this run, its sizes included
  bool batches_given = false;  ///< --accumulate was

  int batches_here() const { return accumulate / ranks; }  ///< batches a step of this rank
  /// The options as rank `number` of `count` sees them: batches and leaves that were not given follow from the ranks.
  /// Throws gr::bad_flag if the ranks do not divide the leaves, or the leaves the batches.
  options of_rank(int number, int count) const;
  /// The learning rate of step `step`, at this fraction of the run. It rises over --warmup steps, but over no more than
  /// the first tenth of the run.
  double rate(long long step, double fraction) const {
    const double steps_risen = static_cast<double>(step + 1) / static_cast<double>(std::max(warmup, 1LL));
    return std::min(1.0, std::max(steps_risen, 10 * fraction)) * rate_after_warmup()(fraction);
  }
  /// The learning rate without warm-up: a schedule of one step, called with the fraction.
  std::function<double(double)> rate_after_warmup() const {
    const double low = 0.05 * lr;
    if (schedule == "constant") return gr::warmup_constant{.peak = lr, .warmup = 0};
    if (schedule == "linear") return gr::warmup_linear{.peak = lr, .low = low, .warmup = 0, .total = 1};
    if (schedule == "wsd") return gr::warmup_stable_decay{.peak = lr, .low = low, .warmup = 0, .total = 1};
    return gr::warmup_cosine{.peak = lr, .low = low, .warmup = 0, .total = 1};
  }
};

/// Whether these are examples, and not texts to cut into windows or token shards.
bool holds_examples(const std::vector<std::string>& data);

/// The operations that a --checkpoint of keep:NAME,..., drop:NAME,... or offload:NAME,... lists; none for those that
/// are one word. Throws gr::bad_flag for anything else.
std::vector<std::string> listed_operations(const std::string& checkpoint);

/// Most batches a step: a plan traces each, which takes seconds.
inline constexpr int most_batches = 1000;

inline constexpr std::size_t most_batch_tokens = std::size_t{1} << 31;

/// A command line and what it says.
struct command_line {
  options o;
  flag_table flags;

  command_line();
  command_line(const command_line&) = delete;  // the table writes to the options
  /// Reads a command line after a run's config, unless that is empty, and checks what needs no model. Throws
  /// gr::bad_flag; returns false if --help was asked for and printed.
  bool read(int argc, char** argv, const std::string& run_config = "");
  /// Sets what follows from the model and its batch. Throws gr::bad_flag for more batches than a step may have.
  void finish(double usual_rate);

 private:
  std::string save_every_ = "5m", config_;
};

/// Reads the command line of a trainer that was compiled for these values of flags; the usual rate is its optimizer's.
/// Throws gr::bad_flag; returns nothing if --help was asked for and printed.
std::optional<options> read_options(int argc, char** argv, const gr::config_entries& compiled_for, double usual_rate);

}  // namespace gpt
