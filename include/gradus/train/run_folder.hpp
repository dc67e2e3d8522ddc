#pragma once
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#if defined(__unix__) || defined(__APPLE__)
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>
#endif

#include "../core/error.hpp"

namespace gradus {

/// Makes the folder of a run, `asked`, or `runs/<date>-<time>` where that is empty. One that holds something is refused, so that no run
/// overwrites another: gradus::error.
inline std::filesystem::path make_run_folder(const std::string& asked) {
  namespace fs = std::filesystem;
  fs::path folder = asked;
  if (asked.empty()) {
    const std::time_t now = std::time(nullptr);
    char text[32];
    std::strftime(text, sizeof text, "%Y%m%d-%H%M%S", std::localtime(&now));
    folder = fs::path("runs") / text;
    for (int again = 2; fs::exists(folder); ++again)
      folder = fs::path("runs") / (std::string(text) + "-" + std::to_string(again));
  }
  std::error_code problem;
  if (fs::exists(folder, problem) && !fs::is_directory(folder, problem))
    throw error(folder.string() + ": is not a folder; name another with --out");
  if (fs::exists(folder, problem) && !fs::is_empty(folder, problem))
    throw error(folder.string() + ": is not empty; name another folder with --out");
  fs::create_directories(folder, problem);
  if (problem) throw error(folder.string() + ": cannot be made: " + problem.message());
  return folder;
}

/// Most checkpoints that a run's folder holds.
inline constexpr std::size_t most_checkpoints = 100;

/// The checkpoint in a run's folder that is so many saves old: checkpoint.safetensors is the last one, checkpoint-previous.safetensors the one
/// before, checkpoint-previous-2.safetensors the one before that, and so on.
inline std::filesystem::path checkpoint_path(const std::filesystem::path& folder, std::size_t age = 0) {
  std::string name = "checkpoint";
  if (age > 0) name += "-previous";
  if (age > 1) name.append("-").append(std::to_string(age));
  return folder / name.append(".safetensors");
}
/// Those behind the last one where `keep` are kept in all, the newest first.
inline std::vector<std::filesystem::path> older_checkpoint_paths(const std::filesystem::path& folder,
                                                                 std::size_t keep) {
  std::vector<std::filesystem::path> paths;
  for (std::size_t age = 1; age < keep; ++age) paths.push_back(checkpoint_path(folder, age));
  return paths;
}
/// Removes those that are too many where `keep` are kept. Nothing is thrown where that cannot be.
inline void remove_old_checkpoints(const std::filesystem::path& folder, std::size_t keep) {
  std::error_code problem;
  for (std::size_t age = keep; age < most_checkpoints; ++age)
    std::filesystem::remove(checkpoint_path(folder, age), problem);
}
/// Moves a last checkpoint that is damaged to checkpoint-damaged.safetensors and the one of `age` into its place, so that the next save keeps
/// the good one. Nothing is thrown where that cannot be: it is no reason not to resume.
inline void move_damaged_checkpoint(const std::filesystem::path& folder, std::size_t age = 1) {
  std::error_code problem;
  std::filesystem::rename(checkpoint_path(folder), folder / "checkpoint-damaged.safetensors", problem);
  if (!problem) std::filesystem::rename(checkpoint_path(folder, age), checkpoint_path(folder), problem);
}

/// Keeps a run to one process: while it lives, no other can be made for the same folder. An empty name locks nothing. Throws gradus::error
/// where the run is in progress elsewhere. Where the system has no such locks, nothing is checked.
class run_lock {
 public:
  explicit run_lock([[maybe_unused]] const std::filesystem::path& folder) {
#if defined(__unix__) || defined(__APPLE__)
    if (folder.empty()) return;
    file_ = ::open(folder.c_str(), O_RDONLY | O_CLOEXEC);
    if (file_ < 0 || ::flock(file_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
    ::close(file_);
    throw error(folder.string() + ": this run is in progress in another process; stop that one first");
#endif
  }
  run_lock(const run_lock&) = delete;
  run_lock& operator=(const run_lock&) = delete;
  ~run_lock() {
#if defined(__unix__) || defined(__APPLE__)
    if (file_ >= 0) ::close(file_);
#endif
  }

 private:
  [[maybe_unused]] int file_ = -1;
};

}  // namespace gradus
