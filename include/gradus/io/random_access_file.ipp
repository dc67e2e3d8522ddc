#pragma once
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#if defined(__unix__) || defined(__APPLE__)
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#endif

#include "random_access_file.hpp"

namespace gradus {

GRADUS_IMPL random_access_file::random_access_file(std::filesystem::path path) : path_(std::move(path)) {
  if (open()) return;
  close();
  stamp_.size = whole_.emplace(path_).size();
}

GRADUS_IMPL random_access_file::~random_access_file() { close(); }

GRADUS_IMPL void random_access_file::close() {
#if defined(__unix__) || defined(__APPLE__)
  if (file_ >= 0) ::close(std::exchange(file_, -1));
#endif
}

GRADUS_IMPL void random_access_file::fail(const std::string& what) const { throw error(path_.string() + ": " + what); }

#if defined(__unix__) || defined(__APPLE__)
namespace detail {
template <class Stamp>
Stamp stamp_of(const struct stat& s) {
#ifdef __APPLE__
  const auto& modified = s.st_mtimespec;
#else
  const auto& modified = s.st_mtim;
#endif
  return {static_cast<std::size_t>(s.st_size), modified.tv_sec, modified.tv_nsec};
}
}  // namespace detail
#endif

GRADUS_IMPL bool random_access_file::open() {
#if defined(__unix__) || defined(__APPLE__)
  struct stat found {};
  if (::stat(path_.c_str(), &found) != 0 || !S_ISREG(found.st_mode)) return false;
  file_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (file_ < 0 || ::fstat(file_, &found) != 0) return false;
  stamp_ = detail::stamp_of<stamp>(found);
  return stamp_.size > 0;  // files of /proc report size 0
#else
  return false;
#endif
}

GRADUS_IMPL void random_access_file::read(std::size_t at, std::span<std::byte> to) const {
  if (at > size() || to.size() > size() - at)
    fail("ends before byte " + std::to_string(at + to.size()) + " of the requested part");
  if (whole_) {
    std::ranges::copy(whole_->bytes().subspan(at, to.size()), to.begin());
    return;
  }
#if defined(__unix__) || defined(__APPLE__)
  const auto cannot = [&] { fail(std::string("cannot be read: ") + std::strerror(errno)); };
  std::size_t done = 0;
  while (done < to.size()) {
    const auto got = ::pread(file_, to.data() + done, to.size() - done, static_cast<off_t>(at + done));
    if (got == 0) break;  // it was shortened, or has fewer bytes than it reports, as files of /sys
    if (got > 0) done += static_cast<std::size_t>(got);
    else if (errno != EINTR) cannot();
  }
  // Compared after the read: a writer updates the time first.
  struct stat now {};
  if (::fstat(file_, &now) != 0) cannot();
  if (detail::stamp_of<stamp>(now) != stamp_)
    fail("has changed since it was opened; it must not change while it is in use");
  if (done < to.size()) fail("ends at byte " + std::to_string(at + done) + ", before the size that it reports");
#endif
}

GRADUS_IMPL bool random_access_file::replaced() const {
#if defined(__unix__) || defined(__APPLE__)
  struct stat named {
  }, opened{};
  if (file_ < 0 || whole_ || ::fstat(file_, &opened) != 0) return false;
  return ::stat(path_.c_str(), &named) != 0 || named.st_ino != opened.st_ino || named.st_dev != opened.st_dev;
#else
  return false;
#endif
}

}  // namespace gradus
