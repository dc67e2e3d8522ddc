#pragma once
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#if defined(__unix__) || defined(__APPLE__)
#include <fcntl.h>
#include <sys/file.h>
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
// Opens a new file, with a lock that ends with the process. One that is there and has no lock is removed first. A
// symbolic link is not followed: in a folder from elsewhere it may name any file of the user's.
GRADUS_IMPL std::FILE* open_new(const std::string& path) {
  for (int attempt = 0; attempt < 2; ++attempt) {
    const int made = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (made >= 0) {
      ::flock(made, LOCK_EX | LOCK_NB);
      return ::fdopen(made, "wb");
    }
    if (errno != EEXIST) return nullptr;
    const int left = ::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (left < 0) return nullptr;
    const bool is_written = ::flock(left, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    ::close(left);
    if (is_written) {
      errno = EBUSY;
      return nullptr;
    }
    ::unlink(path.c_str());
  }
  return nullptr;
}
GRADUS_IMPL std::FILE* open_to_append(const std::filesystem::path& path) {
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0666);
  return file < 0 ? nullptr : ::fdopen(file, "a+b");
}
#else
GRADUS_IMPL bool reach_the_disk(std::FILE*) { return true; }
GRADUS_IMPL std::FILE* open_new(const std::string& path) { return std::fopen(path.c_str(), "wb"); }
GRADUS_IMPL std::FILE* open_to_append(const std::filesystem::path& path) { return std::fopen(path.c_str(), "a+b"); }
#endif

}  // namespace detail

GRADUS_IMPL atomic_file::atomic_file(std::filesystem::path path)
    : path_(std::move(path)), temporary_(path_.string() + ".tmp") {
  errno = 0;
  file_ = detail::open_new(temporary_);
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
  std::string why = reason != 0 ? std::strerror(reason) : "unknown reason";
  if (reason == ELOOP) why = temporary_ + " is a symbolic link, which is not followed; remove it";
  if (reason == EBUSY) why = temporary_ + " is being written by another process";
  throw error(path_.string() + ": cannot be written: " + why);
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
