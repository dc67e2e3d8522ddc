#pragma once
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "../core/config.hpp"
#include "../core/error.hpp"

namespace gradus {

/// The bytes of a file, mapped into memory: the system reads a page when it is first touched, and may drop it when
/// memory is short, so that a file may be larger than memory. What is no regular file (a pipe), and any file on a
/// system without mmap, is read whole.
///
/// Throws gradus::error, which names the file, if it is missing, a directory or unreadable. Nobody may shorten the file
/// while it is mapped: touching what is gone ends the program.
class mapped_file {
 public:
  explicit mapped_file(std::filesystem::path path);
  mapped_file(mapped_file&& other) noexcept;
  mapped_file& operator=(mapped_file&& other) noexcept;
  ~mapped_file();

  const std::filesystem::path& path() const { return path_; }
  std::size_t size() const { return size_; }
  /// Valid as long as this object, wherever it is moved to.
  std::span<const std::byte> bytes() const {
    return {mapped_ != nullptr ? static_cast<const std::byte*>(mapped_) : read_.data(), size_};
  }
  std::string_view text() const { return {reinterpret_cast<const char*>(bytes().data()), size_}; }

  /// Takes what was looked at out of the memory that the system counts as the process's; it is mapped again when it is
  /// touched. The system would do so itself when memory is short: this is for a program that is to stay within a
  /// budget.
  void release() const;

 private:
  [[noreturn]] void fail(const std::string& what) const;

  /// False where the file has to be read: it is empty, as those of /proc say they are, or cannot be mapped.
  bool map(std::FILE* file);
  void read(std::FILE* file);

  std::filesystem::path path_;
  void* mapped_ = nullptr;
  std::size_t size_ = 0;
  std::vector<std::byte> read_;
};

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "mapped_file.ipp"
#endif
