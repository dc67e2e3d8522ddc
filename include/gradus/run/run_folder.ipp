#pragma once
#include <cerrno>
#include <ctime>
#include <system_error>

#include "../core/platform.hpp"
#include "run_folder.hpp"

namespace gradus {

GRADUS_IMPL std::filesystem::path make_run_folder(const std::string& asked) {
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

GRADUS_IMPL std::filesystem::path checkpoint_path(const std::filesystem::path& folder, std::size_t age) {
  std::string name = "checkpoint";
  if (age > 0) name += "-previous";
  if (age > 1) name.append("-").append(std::to_string(age));
  return folder / name.append(".safetensors");
}

GRADUS_IMPL std::vector<std::filesystem::path> older_checkpoint_paths(const std::filesystem::path& folder,
                                                                      std::size_t keep) {
  std::vector<std::filesystem::path> paths;
  for (std::size_t age = 1; age < keep; ++age) paths.push_back(checkpoint_path(folder, age));
  return paths;
}

GRADUS_IMPL void remove_old_checkpoints(const std::filesystem::path& folder, std::size_t keep) {
  std::error_code problem;
  for (std::size_t age = keep; age < most_checkpoints; ++age)
    std::filesystem::remove(checkpoint_path(folder, age), problem);
}

GRADUS_IMPL void move_damaged_checkpoint(const std::filesystem::path& folder, std::size_t age) {
  std::error_code problem;
  std::filesystem::rename(checkpoint_path(folder), folder / "checkpoint-damaged.safetensors", problem);
  if (!problem) std::filesystem::rename(checkpoint_path(folder, age), checkpoint_path(folder), problem);
}

GRADUS_IMPL run_lock::run_lock(const std::filesystem::path& folder) {
  if (folder.empty()) return;
  errno = 0;
  file_ = platform::lock_folder(folder.c_str());
  if (file_ < 0 && errno == EWOULDBLOCK)
    throw error(folder.string() + ": this run is in progress in another process; stop that one first");
}

GRADUS_IMPL run_lock::~run_lock() {
  if (file_ >= 0) platform::close_file(file_);
}

GRADUS_IMPL bool run_lock::holds(const std::filesystem::path& folder) const {
  return file_ < 0 || platform::holds_folder(file_, folder.c_str());
}

}  // namespace gradus
