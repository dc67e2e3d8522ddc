#pragma once
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>

#include <gradus/core/error.hpp>
#include <gradus/core/platform.hpp>

namespace gpt {

/// Throws gradus::error unless a folder of this name can be written: there is none, or it is empty.
inline void check_new_folder(std::filesystem::path out) {
  if (!out.has_filename()) out = out.parent_path();  // "shards/"
  std::error_code problem;
  if (std::filesystem::is_symlink(out, problem))
    throw gradus::error(out.string() + ": is a link; name the folder itself, or a new one");
  if (std::filesystem::exists(out, problem) &&
      (!std::filesystem::is_directory(out, problem) || !std::filesystem::is_empty(out, problem)))
    throw gradus::error(out.string() + ": is there already; name a new folder");
}

/// A folder that is being written, OUT.gradus-unfinished: finish() renames it to OUT; without that it is removed. One
/// that a killed process has left is replaced; a process that is at work has it locked.
class unfinished_folder {
 public:
  /// Throws gradus::error if it cannot be made, or another process is writing it.
  explicit unfinished_folder(const std::filesystem::path& out) : out_(out) {
    if (!out_.has_filename()) out_ = out_.parent_path();
    path_ = out_.string() + ".gradus-unfinished";
    std::error_code problem;
    if (out_.has_parent_path()) std::filesystem::create_directories(out_.parent_path(), problem);
    for (int attempt = 0; attempt < 100; ++attempt) {
      const bool is_new = std::filesystem::create_directory(path_, problem);
      if (problem && problem != std::errc::file_exists)
        throw gradus::error(path_.string() + ": cannot be made: " + problem.message());
      errno = 0;
      lock_ = gradus::platform::lock_folder(path_.c_str());
      const int reason = errno;
      if (lock_ < 0 && reason == ENOENT) continue;  // its process has just finished
      if (lock_ < 0 && reason == EWOULDBLOCK)
        throw gradus::error(out_.string() + ": another process is writing it, as " + path_.string() +
                            "; wait for it, or name another one");
      if (lock_ >= 0 && !gradus::platform::holds_folder(lock_, path_.c_str())) {
        unlock();
        continue;
      }
      if (is_new) return;  // where a disk has no locks, too
      if (lock_ < 0)
        throw gradus::error(path_.string() + ": is left from a process that was cut short, and cannot be replaced: " +
                            std::strerror(reason) + "; remove it");
      std::filesystem::remove_all(path_, problem);
      unlock();
      if (problem) throw gradus::error(path_.string() + ": cannot be replaced: " + problem.message());
    }
    throw gradus::error(path_.string() + ": other processes make and remove it all the time; name another folder");
  }
  unfinished_folder(const unfinished_folder&) = delete;
  unfinished_folder& operator=(const unfinished_folder&) = delete;
  ~unfinished_folder() {
    std::error_code ignored;
    if (!finished_) std::filesystem::remove_all(path_, ignored);
    unlock();
  }
  const std::filesystem::path& path() const { return path_; }
  void finish() {
    std::error_code problem;
    if (std::filesystem::is_directory(out_, problem)) std::filesystem::remove(out_, problem);  // if it is empty
    std::filesystem::rename(path_, out_, problem);
    if (problem) {  // Windows renames no folder that holds an open file, such as a lock
      unlock();
      std::filesystem::rename(path_, out_, problem);
    }
    if (problem) throw gradus::error(out_.string() + ": cannot be made: " + problem.message());
    finished_ = true;
  }

 private:
  void unlock() {
    if (lock_ >= 0) gradus::platform::close_file(lock_);
    lock_ = -1;
  }

  std::filesystem::path out_, path_;
  int lock_ = -1;
  bool finished_ = false;
};

}  // namespace gpt
