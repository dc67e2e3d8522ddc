#pragma once
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "../core/error.hpp"
#include "../core/platform.hpp"
#include "atomic_file.hpp"

namespace gradus {

namespace detail {

// Opens a new file, with a lock that ends with the process. One that is there and has no lock is removed first.
GRADUS_IMPL std::FILE* open_new(const std::filesystem::path& path) {
  for (int attempt = 0; attempt < 2; ++attempt) {
    const int made = platform::open_file(path.c_str(), platform::file_use::create);
    if (made >= 0) {
      platform::lock_file(made);
      return platform::stream_of(made, "wb");
    }
    if (errno != EEXIST) return nullptr;
    const int left = platform::open_file(path.c_str(), platform::file_use::take);
    if (left < 0) return nullptr;
    const bool is_written = !platform::lock_file(left) && errno == EWOULDBLOCK;
    platform::close_file(left);
    if (is_written) {
      errno = EBUSY;
      return nullptr;
    }
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
  }
  return nullptr;
}

}  // namespace detail

GRADUS_IMPL atomic_file::atomic_file(std::filesystem::path path) : path_(std::move(path)), temporary_(path_) {
  temporary_ += ".tmp";
  refuse_what_is_no_file();
  errno = 0;
  file_ = detail::open_new(temporary_);
  if (file_ == nullptr) fail();
  opened_ = true;
}

GRADUS_IMPL void atomic_file::write(const void* bytes, std::size_t count) {
  errno = 0;
  if (count != 0 && std::fwrite(bytes, 1, count, file_) != count) fail();
}

GRADUS_IMPL void atomic_file::overwrite(std::uint64_t position, const void* bytes, std::size_t count) {
  errno = 0;
  if (!platform::seek(file_, static_cast<std::int64_t>(position))) fail();
  write(bytes, count);
  if (std::fseek(file_, 0, SEEK_END) != 0) fail();
}

GRADUS_IMPL void atomic_file::commit(const std::function<void()>& before_rename) {
  errno = 0;
  if (std::fflush(file_) != 0 || !platform::flush_file(platform::file_of(file_))) fail();
  // A full disk may be reported only on close.
  if (std::fclose(std::exchange(file_, nullptr)) != 0) fail();
  if (before_rename) before_rename();
  refuse_what_is_no_file();
  std::error_code problem;
  std::filesystem::rename(temporary_, path_, problem);
  if (problem) {
    errno = problem.value();
    fail();
  }
  const auto folder = path_.parent_path();  // its names matter only after a power loss
  platform::flush_folder(folder.empty() ? std::filesystem::path(".").c_str() : folder.c_str());
}

GRADUS_IMPL void atomic_file::fail() {
  const int reason = errno;
  discard();
  std::string why = reason != 0 ? std::strerror(reason) : "unknown reason";
  if (reason == ELOOP) why = temporary_.string() + " is a symbolic link, which is not followed; remove it";
  if (reason == EBUSY) why = temporary_.string() + " is being written by another process";
  throw error(path_.string() + ": cannot be written: " + why);
}

GRADUS_IMPL void atomic_file::refuse_what_is_no_file() {
  std::error_code ignored;
  const std::filesystem::file_status status = std::filesystem::status(path_, ignored);
  if (!std::filesystem::exists(status) || std::filesystem::is_regular_file(status)) return;
  discard();
  throw error(path_.string() + ": cannot be written: it is " +
              (std::filesystem::is_directory(status) ? "a directory" : "a device, a pipe or the like") +
              "; name a file");
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
