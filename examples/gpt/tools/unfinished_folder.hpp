#pragma once
#include <filesystem>
#include <string>
#include <system_error>

#include <gradus/core/error.hpp>

namespace gpt {

/// A folder that is being written: finish() renames it to `out`; without that it is removed.
class unfinished_folder {
 public:
  explicit unfinished_folder(const std::filesystem::path& out) : out_(out) {
    if (!out_.has_filename()) out_ = out_.parent_path();  // "shards/"
    path_ = out_.string() + ".unfinished";
    std::error_code problem;
    if (std::filesystem::is_symlink(out_, problem))
      throw gradus::error(out_.string() + ": is a link; name the folder itself, or a new one");
    if (std::filesystem::exists(out_, problem) &&
        (!std::filesystem::is_directory(out_, problem) || !std::filesystem::is_empty(out_, problem)))
      throw gradus::error(out_.string() + ": is there already; name a new folder");
    if (std::filesystem::exists(path_, problem))
      throw gradus::error(path_.string() +
                          ": is left from a run that was cut short, or belongs to one that goes on; remove it");
    std::filesystem::create_directories(path_, problem);
    if (problem) throw gradus::error(path_.string() + ": cannot be made: " + problem.message());
  }
  unfinished_folder(const unfinished_folder&) = delete;
  unfinished_folder& operator=(const unfinished_folder&) = delete;
  ~unfinished_folder() {
    std::error_code ignored;
    if (!finished_) std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }
  void finish() {
    std::error_code problem;
    std::filesystem::remove(out_, problem);  // if it was there, it was empty
    std::filesystem::rename(path_, out_, problem);
    if (problem) throw gradus::error(out_.string() + ": cannot be made: " + problem.message());
    finished_ = true;
  }

 private:
  std::filesystem::path out_, path_;
  bool finished_ = false;
};

}  // namespace gpt
