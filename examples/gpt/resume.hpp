#pragma once
// Resuming a run: the checkpoints in its folder, and the metadata in them.

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>

#include <gradus/train/checkpoint.hpp>
#include <gradus/train/run_folder.hpp>

#include "options.hpp"

namespace gpt {

/// What tells the data of one run from those of another.
struct data_identity {
  std::size_t training_tokens, validation_tokens;
  std::uint64_t fingerprint;  ///< of gradus::dataset
};

/// How far a run is.
struct run_position {
  long long step = 0;
  double tokens = 0;
  double training_seconds = 0;
  double elapsed = 0;  ///< seconds
  double best_validation = std::numeric_limits<double>::infinity();
  double loss_scale = 1;
  int clean_steps = 0;
  double next_rate = 0;  ///< learning rate that the next step was to have; 0: not known
};

/// The last checkpoint that can be read.
struct found_checkpoint {
  std::filesystem::path path;  ///< empty: none is asked for
  std::size_t age = 0;         ///< saves, of gradus::checkpoint_path
  run_position at;
  std::string damage;  ///< of newer ones; empty: none

  /// What the run is to tell of damage; empty: nothing.
  std::string warning() const;
};

/// What a checkpoint of this run at this position says besides its tensors.
gr::run_metadata metadata_of(const options& o, const data_identity& data, const run_position& at);

/// The checkpoint from which --resume resumes: the last one, or the one before where that is damaged, and so on. Throws
/// gradus::error where there is none, and where it is of another model, optimizer, data or seed.
found_checkpoint find_checkpoint(const options& o, const data_identity& data);

/// The one behind `newer`, whose tensors are damaged as `damage` says.
found_checkpoint find_checkpoint_behind(const found_checkpoint& newer, const std::string& damage, const options& o,
                                        const data_identity& data);

}  // namespace gpt
