#pragma once
#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "../core/config.hpp"
#include "../core/error.hpp"

namespace gradus {

/// Makes the folder of a run, `asked`, or `runs/<date>-<time>` where that is empty. One that holds something is
/// refused, so that no run overwrites another: gradus::error.
std::filesystem::path make_run_folder(const std::string& asked);

/// Most checkpoints that a run's folder holds.
inline constexpr std::size_t most_checkpoints = 100;

/// The checkpoint in a run's folder that is so many saves old: checkpoint.safetensors is the last one,
/// checkpoint-previous.safetensors the one before, checkpoint-previous-2.safetensors the one before that, and so on.
std::filesystem::path checkpoint_path(const std::filesystem::path& folder, std::size_t age = 0);
/// Those behind the last one where `keep` are kept in all, the newest first.
std::vector<std::filesystem::path> older_checkpoint_paths(const std::filesystem::path& folder, std::size_t keep);
/// Removes those that are too many where `keep` are kept. Nothing is thrown where that cannot be.
void remove_old_checkpoints(const std::filesystem::path& folder, std::size_t keep);
/// Moves a last checkpoint that is damaged to checkpoint-damaged.safetensors and the one of `age` into its place, so
/// that the next save keeps the good one. Nothing is thrown where that cannot be: it is no reason not to resume.
void move_damaged_checkpoint(const std::filesystem::path& folder, std::size_t age = 1);

/// Keeps a run to one process: while it lives, no other can be made for the same folder. An empty name locks nothing.
/// Throws gradus::error where the run is in progress elsewhere. Where the system has no such locks, nothing is checked.
class run_lock {
 public:
  explicit run_lock(const std::filesystem::path& folder);
  run_lock(const run_lock&) = delete;
  run_lock& operator=(const run_lock&) = delete;
  ~run_lock();

  /// Whether `folder` is what was locked, and not another of this name, or none. True where nothing is checked.
  bool holds(const std::filesystem::path& folder) const;

 private:
  [[maybe_unused]] int file_ = -1;
};

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "run_folder.ipp"
#endif
