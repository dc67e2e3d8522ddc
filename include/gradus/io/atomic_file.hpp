#pragma once
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#if defined(__unix__) || defined(__APPLE__)
#include <fcntl.h>
#include <unistd.h>
#endif

#include "../core/error.hpp"

namespace gradus {

/// A file that appears whole or not at all: bytes go to `<path>.tmp`, and commit() sees to it that they are on the disk and renames it
/// over `path`. Whatever goes wrong before that (a full disk, an exception, a kill, a loss of power) leaves the old file as it was.
/// Every failure throws gradus::error and names the file and the reason.
class atomic_file {
 public:
  explicit atomic_file(std::filesystem::path path) : path_(std::move(path)), temporary_(path_.string() + ".tmp") {
    errno = 0;
    file_ = std::fopen(temporary_.c_str(), "wb");
    if (file_ == nullptr) fail();
    opened_ = true;
  }
  atomic_file(const atomic_file&) = delete;
  atomic_file& operator=(const atomic_file&) = delete;
  ~atomic_file() { discard(); }

  void write(const void* bytes, std::size_t count) {
    errno = 0;
    if (count != 0 && std::fwrite(bytes, 1, count, file_) != count) fail();
  }
  void write(std::string_view text) { write(text.data(), text.size()); }
  /// Replaces bytes that were written before, the first of them at `position`; what is written next goes to the end again.
  void overwrite(long position, const void* bytes, std::size_t count) {
    errno = 0;
    if (std::fseek(file_, position, SEEK_SET) != 0) fail();
    write(bytes, count);
    if (std::fseek(file_, 0, SEEK_END) != 0) fail();
  }

  /// Puts the file in its place, after a call of `before_rename`, unless that is null. Nothing may be written after it.
  void commit(const std::function<void()>& before_rename = nullptr) {
    errno = 0;
    if (std::fflush(file_) != 0 || !reach_the_disk(fileno_of(file_))) fail();
    // A full disk may show only when the file is closed.
    if (std::fclose(std::exchange(file_, nullptr)) != 0) fail();
    if (before_rename) before_rename();
    std::error_code problem;
    std::filesystem::rename(temporary_, path_, problem);
    if (problem) {
      errno = problem.value();
      fail();
    }
    record_the_name();
  }

 private:
  [[noreturn]] void fail() {
    const int reason = errno;
    discard();
    throw error(path_.string() + ": cannot be written: " + (reason != 0 ? std::strerror(reason) : "unknown reason"));
  }
#if defined(__unix__) || defined(__APPLE__)
  static int fileno_of(std::FILE* file) { return fileno(file); }
  // Pipes and the like, which have no disk, say EINVAL.
  static bool reach_the_disk(int file) { return fsync(file) == 0 || errno == EINVAL || errno == EROFS; }
  // The new name itself; that it fails is no loss before the power does.
  void record_the_name() const {
    const auto folder = path_.has_parent_path() ? path_.parent_path() : std::filesystem::path(".");
    const int opened = open(folder.c_str(), O_RDONLY);
    if (opened < 0) return;
    fsync(opened);
    close(opened);
  }
#else
  static int fileno_of(std::FILE*) { return 0; }
  static bool reach_the_disk(int) { return true; }
  void record_the_name() const {}
#endif
  void discard() noexcept {
    if (file_ != nullptr) std::fclose(std::exchange(file_, nullptr));
    // What could not be opened is not ours; after a commit there is nothing of that name.
    std::error_code ignored;
    if (opened_) std::filesystem::remove(temporary_, ignored);
  }

  std::filesystem::path path_;
  std::string temporary_;
  std::FILE* file_ = nullptr;
  bool opened_ = false;
};

/// Replaces the contents of a file in one step; see atomic_file.
inline void write_file_atomically(const std::filesystem::path& path, std::string_view contents) {
  atomic_file file(path);
  file.write(contents);
  file.commit();
}

}  // namespace gradus
