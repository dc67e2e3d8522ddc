#pragma once
// Resuming a run: the checkpoints in its folder, and the metadata in them.

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>

#include <gradus/train/checkpoint.hpp>

#include "options.hpp"
#include "report.hpp"

namespace gpt {

/// What tells the data of one run from those of another.
struct data_identity {
  std::size_t training_tokens, validation_tokens;
  std::uint64_t fingerprint;  ///< of gradus::dataset
};

/// Keeps a run to one process: while it lives, no other can be made for the same folder. An empty name locks nothing. Throws gradus::error
/// where the run is in progress elsewhere. Where the system has no such locks, nothing is checked.
class run_lock {
 public:
  explicit run_lock(const std::filesystem::path& folder);
  run_lock(const run_lock&) = delete;
  run_lock& operator=(const run_lock&) = delete;
  ~run_lock();

 private:
  int file_ = -1;
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
};

/// The last checkpoint that can be read.
struct found_checkpoint {
  std::filesystem::path path;  ///< empty: none is asked for
  run_position at;
  std::string warning;  ///< of a newer one that is damaged; empty: none
};

inline std::filesystem::path checkpoint_path(const std::filesystem::path& folder) {
  return folder / "checkpoint.safetensors";
}
inline std::filesystem::path previous_checkpoint_path(const std::filesystem::path& folder) {
  return folder / "checkpoint-previous.safetensors";
}

/// What a checkpoint of this run at this position says besides its tensors.
gr::run_metadata metadata_of(const options& o, const data_identity& data, const run_position& at);

/// The checkpoint from which --resume resumes: the last one, or the one before where that is damaged; `damage` says so of the last one's
/// tensors. Throws gradus::error where there is none, and where it is of another model, optimizer, data or seed.
found_checkpoint find_checkpoint(const options& o, const data_identity& data, const std::string& damage = "");

/// Where a newer checkpoint is damaged, moves it to checkpoint-damaged.safetensors and the good one into its place, so that the next save
/// keeps the good one.
void move_damaged_checkpoint(const found_checkpoint& found);

}  // namespace gpt
