#pragma once
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "../core/config.hpp"
#include "../core/error.hpp"

namespace gradus {

/// A file that appears whole or not at all: bytes go to `<path>.tmp`, and commit() sees to it that they are on the disk
/// and renames it over `path`. Whatever goes wrong before that (a full disk, an exception, a kill, a loss of power)
/// leaves the old file as it was. Every failure throws gradus::error and names the file and the reason.
class atomic_file {
 public:
  explicit atomic_file(std::filesystem::path path);
  atomic_file(const atomic_file&) = delete;
  atomic_file& operator=(const atomic_file&) = delete;
  ~atomic_file() { discard(); }

  void write(const void* bytes, std::size_t count);
  void write(std::string_view text) { write(text.data(), text.size()); }
  /// Replaces bytes that were written before, the first of them at `position`; what is written next goes to the end
  /// again.
  void overwrite(long position, const void* bytes, std::size_t count);

  /// Puts the file in its place, after a call of `before_rename`, unless that is null. Nothing may be written after it.
  void commit(const std::function<void()>& before_rename = nullptr);

 private:
  [[noreturn]] void fail();
  void record_the_name() const;
  void discard() noexcept;

  std::filesystem::path path_;
  std::string temporary_;
  std::FILE* file_ = nullptr;
  bool opened_ = false;
};

/// Replaces the contents of a file in one step; see atomic_file.
void write_file_atomically(const std::filesystem::path& path, std::string_view contents);

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "atomic_file.ipp"
#endif
