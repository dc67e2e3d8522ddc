#pragma once
// Read-only files, read in parts.

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "../core/config.hpp"
#include "../core/error.hpp"
#include "../core/platform.hpp"

namespace gradus {

/// Reads parts of a file that must not change, possibly larger than memory. Reads pipes as a whole, and files without a
/// size, as /proc has.
///
/// The reader of all files that users name: they may be rewritten or shortened at any time, and the next read() throws.
/// A mapped_file does not survive that.
///
/// Throws gradus::error, which names the file, if it is missing, a directory, a device or unreadable, or if a pipe
/// brings more than `most_of_a_pipe` bytes.
class random_access_file {
 public:
  static constexpr std::size_t most_of_a_pipe = std::size_t{1} << 28;

  explicit random_access_file(std::filesystem::path path);
  random_access_file(const random_access_file&) = delete;
  random_access_file& operator=(const random_access_file&) = delete;
  ~random_access_file();

  const std::filesystem::path& path() const { return path_; }
  std::size_t size() const { return opened_.size; }

  /// Reads bytes from `at` on; several threads may do so. Throws gradus::error if the file ends before, cannot be read,
  /// or has changed since it was opened: in size or modification time.
  void read(std::size_t at, std::span<std::byte> to) const;

  /// All of its bytes. Throws gradus::error as read() does.
  std::string text() const;

  /// True if the path now names another file or none; read() still reads the opened one.
  bool replaced() const;

 private:
  [[noreturn]] void fail(const std::string& what) const;
  bool open();  // false if the file must be read as a whole
  void read_whole();
  void close();

  std::filesystem::path path_;
  int file_ = -1;
  platform::file_state opened_{};
  std::vector<std::byte> whole_;  // of what was read as a whole
};

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "random_access_file.ipp"
#endif
