#pragma once
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#if __has_include(<sys/mman.h>)
#include <sys/mman.h>
#endif

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
  explicit mapped_file(std::filesystem::path path) : path_(std::move(path)) {
    std::error_code problem;
    const auto status = std::filesystem::status(path_, problem);
    if (status.type() == std::filesystem::file_type::not_found) fail("no such file");
    if (std::filesystem::is_directory(status)) fail("is a directory; name a file");
    errno = 0;
    const auto close = [](std::FILE* f) { std::fclose(f); };
    const std::unique_ptr<std::FILE, decltype(close)> file(std::fopen(path_.string().c_str(), "rb"), close);
    if (file == nullptr) fail(std::string("cannot be read: ") + std::strerror(errno));
    if (!std::filesystem::is_regular_file(status) || !map(file.get())) read(file.get());
  }
  mapped_file(mapped_file&& other) noexcept
      : path_(std::move(other.path_)),
        mapped_(std::exchange(other.mapped_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        read_(std::move(other.read_)) {}
  mapped_file& operator=(mapped_file&& other) noexcept {
    mapped_file moved(std::move(other));
    std::swap(path_, moved.path_);
    std::swap(mapped_, moved.mapped_);
    std::swap(size_, moved.size_);
    std::swap(read_, moved.read_);
    return *this;
  }
  ~mapped_file() {
#if __has_include(<sys/mman.h>)
    if (mapped_ != nullptr) ::munmap(mapped_, size_);
#endif
  }

  const std::filesystem::path& path() const { return path_; }
  std::size_t size() const { return size_; }
  /// Valid as long as this object, wherever it is moved to.
  std::span<const std::byte> bytes() const {
    return {mapped_ != nullptr ? static_cast<const std::byte*>(mapped_) : read_.data(), size_};
  }
  std::string_view text() const { return {reinterpret_cast<const char*>(bytes().data()), size_}; }

  /// Takes what was looked at out of the memory that the system counts as the process's; it is mapped again when it is touched. The
  /// system would do so itself when memory is short: this is for a program that is to stay within a budget.
  void release() const {
#if __has_include(<sys/mman.h>)
    if (mapped_ != nullptr) ::madvise(mapped_, size_, MADV_DONTNEED);
#endif
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw error(path_.string() + ": " + what); }

  /// False where the file has to be read: it is empty, as those of /proc say they are, or cannot be mapped.
  bool map([[maybe_unused]] std::FILE* file) {
#if __has_include(<sys/mman.h>)
    if (std::fseek(file, 0, SEEK_END) != 0) return false;
    const long end = std::ftell(file);
    std::rewind(file);
    if (end <= 0) return false;
    void* const at = ::mmap(nullptr, static_cast<std::size_t>(end), PROT_READ, MAP_PRIVATE, ::fileno(file), 0);
    if (at == MAP_FAILED) return false;
    mapped_ = at;
    size_ = static_cast<std::size_t>(end);
    return true;
#else
    return false;
#endif
  }
  void read(std::FILE* file) {
    std::vector<std::byte> block(1 << 16);
    while (const std::size_t got = std::fread(block.data(), 1, block.size(), file))
      read_.insert(read_.end(), block.begin(), block.begin() + static_cast<std::ptrdiff_t>(got));
    if (std::ferror(file) != 0) fail(std::string("cannot be read: ") + std::strerror(errno));
    size_ = read_.size();
  }

  std::filesystem::path path_;
  void* mapped_ = nullptr;
  std::size_t size_ = 0;
  std::vector<std::byte> read_;
};

}  // namespace gradus
