#pragma once
// A run's folder: its checkpoints' names and its lock.

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "../core/config.hpp"
#include "../core/error.hpp"

namespace gradus {

/// Makes the folder of a run: `asked`, or `runs/<date>-<time>` if that is empty. Throws gradus::error if the folder is
/// not empty, so that no run overwrites another.
std::filesystem::path make_run_folder(const std::string& asked);

/// The most checkpoints that a run's folder can hold.
inline constexpr std::size_t most_checkpoints = 100;

/// The checkpoint that is `age` saves old: checkpoint.safetensors, checkpoint-previous.safetensors,
/// checkpoint-previous-2.safetensors, and so on.
std::filesystem::path checkpoint_path(const std::filesystem::path& folder, std::size_t age = 0);
/// The paths of the `keep` - 1 checkpoints before the last one, the newest first.
std::vector<std::filesystem::path> older_checkpoint_paths(const std::filesystem::path& folder, std::size_t keep);
/// Deletes all but the newest `keep` checkpoints. Never throws.
void remove_old_checkpoints(const std::filesystem::path& folder, std::size_t keep);
/// Moves a damaged last checkpoint to checkpoint-damaged.safetensors and the one of `age` into its place, so that the
/// next save keeps the good one. Never throws.
void move_damaged_checkpoint(const std::filesystem::path& folder, std::size_t age = 1);

/// Keeps a run to one process: while a lock lives, a second one for the same folder throws gradus::error. An empty name
/// locks nothing. On a system without file locks nothing is checked.
class run_lock {
 public:
  explicit run_lock(const std::filesystem::path& folder);
  run_lock(const run_lock&) = delete;
  run_lock& operator=(const run_lock&) = delete;
  ~run_lock();

  /// Whether `folder` is still the locked one: false if it was removed or replaced. True if nothing is checked.
  bool holds(const std::filesystem::path& folder) const;

 private:
  int file_ = -1;
};

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "run_folder.ipp"
#endif
