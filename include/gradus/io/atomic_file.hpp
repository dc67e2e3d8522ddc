#pragma once
// Files that appear completely or not at all.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "../core/config.hpp"
#include "../core/error.hpp"

namespace gradus {

/// Writes to `<path>.tmp`; commit() flushes it to disk and renames it to `path`. A failure before that (full disk,
/// exception, kill, power loss) leaves the old file unchanged. Throws gradus::error with the file and the reason: also
/// if `path` is a directory, a device, a pipe or the like, which a rename would replace, if `<path>.tmp` is a symbolic
/// link, which is not followed, or if another process writes it. What a killed process left behind is replaced.
class atomic_file {
 public:
  explicit atomic_file(std::filesystem::path path);
  atomic_file(const atomic_file&) = delete;
  atomic_file& operator=(const atomic_file&) = delete;
  ~atomic_file() { discard(); }

  void write(const void* bytes, std::size_t count);
  void write(std::string_view text) { write(text.data(), text.size()); }
  /// Replaces earlier bytes from `position` on; later writes append again.
  void overwrite(std::uint64_t position, const void* bytes, std::size_t count);

  /// Moves the file into its place, after calling `before_rename` unless it is null. Nothing may be written afterwards.
  void commit(const std::function<void()>& before_rename = nullptr);

 private:
  [[noreturn]] void fail();
  void refuse_what_is_no_file();
  void discard() noexcept;

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  std::FILE* file_ = nullptr;
  bool opened_ = false;
};

/// Replaces the contents of a file atomically; see atomic_file.
void write_file_atomically(const std::filesystem::path& path, std::string_view contents);

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "atomic_file.ipp"
#endif
