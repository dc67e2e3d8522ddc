#pragma once
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#if defined(__unix__) || defined(__APPLE__)
#include <fcntl.h>
#include <unistd.h>
#endif

#include "../core/error.hpp"
#include "atomic_file.hpp"

namespace gradus {

namespace detail {

#if defined(__unix__) || defined(__APPLE__)
// Flushes to disk. Pipes and the like, which have no disk, fail with EINVAL.
GRADUS_IMPL bool reach_the_disk(std::FILE* file) {
  return fsync(fileno(file)) == 0 || errno == EINVAL || errno == EROFS;
}
#else
GRADUS_IMPL bool reach_the_disk(std::FILE*) { return true; }
#endif

}  // namespace detail

GRADUS_IMPL atomic_file::atomic_file(std::filesystem::path path)
    : path_(std::move(path)), temporary_(path_.string() + ".tmp") {
  errno = 0;
  file_ = std::fopen(temporary_.c_str(), "wb");
  if (file_ == nullptr) fail();
  opened_ = true;
}

GRADUS_IMPL void atomic_file::write(const void* bytes, std::size_t count) {
  errno = 0;
  if (count != 0 && std::fwrite(bytes, 1, count, file_) != count) fail();
}

GRADUS_IMPL void atomic_file::overwrite(long position, const void* bytes, std::size_t count) {
  errno = 0;
  if (std::fseek(file_, position, SEEK_SET) != 0) fail();
  write(bytes, count);
  if (std::fseek(file_, 0, SEEK_END) != 0) fail();
}

GRADUS_IMPL void atomic_file::commit(const std::function<void()>& before_rename) {
  errno = 0;
  if (std::fflush(file_) != 0 || !detail::reach_the_disk(file_)) fail();
  // A full disk may be reported only on close.
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

GRADUS_IMPL void atomic_file::fail() {
  const int reason = errno;
  discard();
  throw error(path_.string() + ": cannot be written: " + (reason != 0 ? std::strerror(reason) : "unknown reason"));
}

// Flushes the directory entry; a failure matters only after a power loss.
GRADUS_IMPL void atomic_file::record_the_name() const {
#if defined(__unix__) || defined(__APPLE__)
  const auto folder = path_.has_parent_path() ? path_.parent_path() : std::filesystem::path(".");
  const int opened = open(folder.c_str(), O_RDONLY);
  if (opened < 0) return;
  fsync(opened);
  close(opened);
#endif
}

GRADUS_IMPL void atomic_file::discard() noexcept {
  if (file_ != nullptr) std::fclose(std::exchange(file_, nullptr));
  // A file that could not be opened is not ours; after a commit it no longer exists.
  std::error_code ignored;
  if (opened_) std::filesystem::remove(temporary_, ignored);
}

GRADUS_IMPL void write_file_atomically(const std::filesystem::path& path, std::string_view contents) {
  atomic_file file(path);
  file.write(contents);
  file.commit();
}

}  // namespace gradus
