#pragma once
// What a training run is: its data, its state, the checkpoint it resumes from, and what it reports.

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <gradus/data/batches.hpp>
#include <gradus/data/dataset.hpp>
#include <gradus/run/checkpoint.hpp>
#include <gradus/run/run_folder.hpp>
#include <gradus/run/run_reporter.hpp>

#include "memory.hpp"
#include "options.hpp"

namespace gpt {

/// The run's tokens, and what tells them from another run's.
struct run_data {
  using windows = gr::token_windows<token, sizes.context>;
  static constexpr std::size_t batch_tokens = batch_size * sizes.context;

  gr::dataset files;
  windows train{files.train(), sizes.vocabulary}, validation{files.validation(), sizes.vocabulary};
  std::string identity = std::to_string(train.tokens()) + " + " + std::to_string(validation.tokens()) +
                         " tokens, FNV-1a " + std::to_string(files.fingerprint());

  /// Micro-batch `number` of the run; any thread may make it.
  auto batch(const options& o, std::uint64_t number) const {
    if (o.order == "shuffled") return train.shuffled_batch<batch_size>(o.seed, number);
    const auto each = static_cast<std::uint64_t>(o.accumulate);
    return train.random_batch<batch_size>(o.seed, static_cast<std::uint32_t>(number / each),
                                          static_cast<std::uint32_t>(number % each));
  }
  /// The number of batches that hold about `tokens` validation tokens, or all if there are fewer.
  std::size_t validation_batches(std::size_t tokens) const {
    return std::max<std::size_t>(std::min(tokens, validation.tokens()) / batch_tokens, 1);
  }
  /// Bytes of text a token of those batches stands for; 0: unknown.
  double bytes_a_token(std::size_t tokens) const;
};

/// A run's progress and the figures of its last step. Checkpoints hold them; log and screen show them.
struct run_state : gr::step_report {
  double training_seconds = 0;  ///< without validation
  double best_validation = std::numeric_limits<double>::infinity();
  double loss_scale = 1;
  int clean_steps = 0;      ///< since the loss scale changed
  double planned_rate = 0;  ///< learning rate that the checkpoint planned for the next step; 0: unknown
};

/// What the ranks of a run must have in common: its identity, and flags that change what is computed.
gr::config_entries shared_settings(const options& o, const run_data& data);

/// The checkpoint that --resume resumes from: the newest that is not damaged.
struct found_checkpoint {
  std::unique_ptr<gr::run_lock> lock;  ///< on the run's folder
  std::filesystem::path path;          ///< empty: a new run
  std::size_t age = 0;                 ///< saves, of gr::checkpoint_path
  run_state state;
  std::string damage;  ///< of newer checkpoints; empty: none
};
/// Throws gr::error if the folder has no checkpoint of a run with these options and data.
found_checkpoint find_checkpoint(const options& o, const run_data& data);
/// Goes on to the checkpoint before, because the tensors of this one are damaged.
void find_older_checkpoint(found_checkpoint& from, const std::string& damage, const options& o, const run_data& data);
/// The state of the run that a checkpoint has.
run_state state_of_checkpoint(const std::filesystem::path& path);
/// The metadata of a checkpoint of this run.
gr::run_metadata metadata_of(const options& o, const run_data& data, const run_state& state);

/// Floating-point operations of training on one token: 6 a parameter that it uses (2 forward, 4 backward), and 12 *
/// layers * width * context for attention's two products (Chowdhery et al. 2022, appendix B).
inline double training_flops_per_token(std::size_t parameters) {
  return 6.0 * static_cast<double>(parameters) + 12.0 * static_cast<double>(sizes.layers * sizes.width * sizes.context);
}

/// What a run reports besides its steps.
struct run_facts {
  std::size_t parameters;
  double machine_flops;
  std::string machine;        ///< its name
  std::string note;           ///< a line about threads; empty: none
  std::string starting_from;  ///< a line about --init; empty: none
  bool resumed;
};
void report_start(gr::run_reporter& report, const std::filesystem::path& folder, const options& o,
                  const chosen_memory& memory, const run_data& data, const run_facts& facts, const run_state& state);
/// Adds the load of experts, by block, to the report of a step.
void report_load(const std::vector<std::vector<double>>& load, gr::step_report& step);
void report_end(gr::run_reporter& report, const chosen_memory& memory, const run_state& state, double bytes_a_token,
                double peak_mib);
/// Writes the file `config`, which repeats the run.
void write_config(const std::filesystem::path& folder, const options& o);

/// Training has failed: the parameters are not worth saving.
struct diverged : gr::error {
  using error::error;
};
void check_finite(const char* what, double loss, long long step);

}  // namespace gpt
