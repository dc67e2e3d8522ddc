#pragma once
// Read-only files mapped into memory.

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "../core/config.hpp"
#include "../core/error.hpp"

namespace gradus {

/// The bytes of a file, mapped into memory: the system reads a page at its first access and may drop it later, so files
/// may exceed memory. Reads pipes as a whole, as a random_access_file does.
///
/// Throws gradus::error like random_access_file. The file must not be shortened while it is mapped: access beyond its
/// new end ends the program. So it is for a program's own files; what users name is read by a random_access_file.
class mapped_file {
 public:
  explicit mapped_file(std::filesystem::path path);
  mapped_file(mapped_file&& other) noexcept;
  mapped_file& operator=(mapped_file&& other) noexcept;
  ~mapped_file();

  const std::filesystem::path& path() const { return path_; }
  std::size_t size() const { return size_; }
  /// Valid during the lifetime of this object, also after moves.
  std::span<const std::byte> bytes() const {
    return {mapped_ != nullptr ? static_cast<const std::byte*>(mapped_) : read_.data(), size_};
  }
  std::string_view text() const { return {reinterpret_cast<const char*>(bytes().data()), size_}; }

  /// Removes the accessed pages from the process's resident memory; the next access maps them again. For programs with
  /// a memory budget: without it, the system does so only when memory is short.
  void release() const;

 private:
  /// Returns false if the file must be read: it is a pipe, has size 0, as files of /proc do, or cannot be mapped.
  bool map();

  std::filesystem::path path_;
  void* mapped_ = nullptr;
  std::size_t size_ = 0;
  std::vector<std::byte> read_;
};

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "mapped_file.ipp"
#endif
