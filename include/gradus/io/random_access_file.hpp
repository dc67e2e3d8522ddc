#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "../core/config.hpp"
#include "../core/error.hpp"
#include "mapped_file.hpp"

namespace gradus {

/// A file that is read in pieces, at any place, while it stays as it is. Memory holds none of it, so it may be larger
/// than memory. What is no regular file (a pipe), and any file on a system without pread, is read whole.
///
/// Unlike a mapped_file it may be rewritten or cut short at any time: the next read() throws, and gives no byte of the
/// new contents.
///
/// Throws gradus::error, which names the file, if it is missing, a directory or unreadable.
class random_access_file {
 public:
  explicit random_access_file(std::filesystem::path path);
  random_access_file(const random_access_file&) = delete;
  random_access_file& operator=(const random_access_file&) = delete;
  ~random_access_file();

  const std::filesystem::path& path() const { return path_; }
  std::size_t size() const { return stamp_.size; }

  /// Reads the bytes from `at` on; any number of threads may. Throws gradus::error where the file ends before them,
  /// cannot be read, or has changed since it was opened: its size or its time of modification is another.
  void read(std::size_t at, std::span<std::byte> to) const;

  /// Whether another file has taken its name, or none has it any more. What read() gives is still the file that was
  /// opened.
  bool replaced() const;

 private:
  struct stamp {  // what tells one state of a file from another
    std::size_t size = 0;
    std::int64_t seconds = 0, nanoseconds = 0;
    friend bool operator==(const stamp&, const stamp&) = default;
  };
  [[noreturn]] void fail(const std::string& what) const;
  bool open();  // false where it has to be read whole
  void close();

  std::filesystem::path path_;
  [[maybe_unused]] int file_ = -1;
  stamp stamp_;
  std::optional<mapped_file> whole_;
};

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "random_access_file.ipp"
#endif
