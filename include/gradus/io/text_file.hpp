#pragma once
// Text files.

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "../core/config.hpp"
#include "../core/error.hpp"
#include "random_access_file.hpp"

namespace gradus {

namespace detail {
/// Throws gradus::error, which says what to do, if `head`, a file's first 8 bytes or all, begins like a compressed
/// file, an archive, or a format of tables or texts that nothing here reads.
void refuse_other_formats(const std::filesystem::path& path, std::span<const std::byte> head);
/// refuse_other_formats for an open file; also throws gradus::error if the file is empty. A pipe is not checked.
void check_text_file(const random_access_file& file);

/// A text file from its beginning on, without a byte order mark. Some of it is in memory at a time.
class text_stream {
 public:
  /// Throws gradus::error as random_access_file and check_text_file do.
  explicit text_stream(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return file_.path(); }
  /// What follows: at least `least` bytes, or all that are left. Valid until the next call. Throws gradus::error if the
  /// file has changed since it was opened.
  std::string_view ahead(std::size_t least = 1) {
    if (buffer_.size() - at_ < least) fill(least);
    return std::string_view(buffer_).substr(at_);
  }
  /// Goes on after `count` bytes of ahead().
  void skip(std::size_t count) { at_ += count; }
  /// Where ahead() begins, in bytes from the file's beginning.
  std::size_t position() const { return read_ - (buffer_.size() - at_); }

 private:
  void fill(std::size_t least);

  random_access_file file_;
  std::string buffer_;
  std::size_t at_ = 0;    // in the buffer
  std::size_t read_ = 0;  // bytes of the file
};
}  // namespace detail

/// The contents of a text file. Throws gradus::error if it is missing, a directory, unreadable, empty or no text.
std::string read_text(const std::filesystem::path& path);

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "text_file.ipp"
#endif
