#pragma once
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <system_error>
#include <utility>

#include "../core/platform.hpp"
#include "random_access_file.hpp"

namespace gradus {

GRADUS_IMPL random_access_file::random_access_file(std::filesystem::path path) : path_(std::move(path)) {
  std::error_code problem;
  const std::filesystem::file_type type = std::filesystem::status(path_, problem).type();
  using enum std::filesystem::file_type;
  if (type == not_found) fail("no such file");
  if (type == directory) fail("is a directory; name a file");
  if (type == character || type == block || type == socket) fail("is a device, which may have no end; name a file");
  if (!open()) read_whole();
}

GRADUS_IMPL random_access_file::~random_access_file() { close(); }

GRADUS_IMPL void random_access_file::close() {
  if (file_ >= 0) platform::close_file(std::exchange(file_, -1));
}

GRADUS_IMPL void random_access_file::fail(const std::string& what) const { throw error(path_.string() + ": " + what); }

GRADUS_IMPL bool random_access_file::open() {
  if (!platform::state_of(path_.c_str(), opened_) || !opened_.is_regular) return false;
  file_ = platform::open_file(path_.c_str(), platform::file_use::read);
  return file_ >= 0 && platform::state_of(file_, opened_) && opened_.size > 0;  // files of /proc report size 0
}

GRADUS_IMPL void random_access_file::read_whole() {
  close();
  errno = 0;
  const auto end = [](std::FILE* f) { std::fclose(f); };
  const std::unique_ptr<std::FILE, decltype(end)> file(platform::open_stream(path_.c_str(), "rb"), end);
  if (file == nullptr) fail(std::string("cannot be read: ") + std::strerror(errno));
  std::vector<std::byte> block(1 << 16);
  while (const std::size_t got = std::fread(block.data(), 1, block.size(), file.get())) {
    if (got > most_of_a_pipe - whole_.size())
      fail("brings more than " + std::to_string(most_of_a_pipe >> 20) +
           " MiB, the most of a pipe; write it into a file, which is read in parts");
    whole_.insert(whole_.end(), block.begin(), block.begin() + static_cast<std::ptrdiff_t>(got));
  }
  if (std::ferror(file.get()) != 0) fail(std::string("cannot be read: ") + std::strerror(errno));
  opened_.size = whole_.size();
}

GRADUS_IMPL void random_access_file::read(std::size_t at, std::span<std::byte> to) const {
  if (at > size() || to.size() > size() - at)
    fail("ends before byte " + std::to_string(at + to.size()) + " of the requested part");
  if (file_ < 0) {
    std::ranges::copy(std::span(whole_).subspan(at, to.size()), to.begin());
    return;
  }
  const auto cannot = [&] { fail(std::string("cannot be read: ") + std::strerror(errno)); };
  std::size_t done = 0;
  while (done < to.size()) {
    const std::ptrdiff_t got = platform::read_at(file_, to.data() + done, to.size() - done, at + done);
    if (got < 0) cannot();
    if (got == 0) break;  // it was shortened, or has fewer bytes than it reports, as files of /sys
    done += static_cast<std::size_t>(got);
  }
  // Compared after the read: a writer updates the time first.
  platform::file_state found{};
  if (!platform::state_of(file_, found)) cannot();
  if (found != opened_) fail("has changed since it was opened; it must not change while it is in use");
  if (done < to.size()) fail("ends at byte " + std::to_string(at + done) + ", before the size that it reports");
}

GRADUS_IMPL std::string random_access_file::text() const {
  std::string all(size(), '\0');
  read(0, std::as_writable_bytes(std::span(all)));
  return all;
}

GRADUS_IMPL bool random_access_file::replaced() const {
  platform::file_state named{};
  if (file_ < 0) return false;
  return !platform::state_of(path_.c_str(), named) || named.number != opened_.number || named.device != opened_.device;
}

}  // namespace gradus
