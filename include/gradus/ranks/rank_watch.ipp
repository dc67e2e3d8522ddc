#pragma once
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "../core/error.hpp"
#include "../core/platform.hpp"
#include "rank_watch.hpp"

namespace gradus {

GRADUS_IMPL rank_watch::rank_watch(std::filesystem::path folder, index_t rank, index_t size)
    : folder_(std::move(folder)), rank_(rank), size_(size) {
  std::error_code ignored;  // opening the file says what is wrong
  std::filesystem::create_directories(folder_, ignored);
  const std::filesystem::path path = file_of(rank_);
  file_ = platform::open_file(path.c_str(), platform::file_use::create_private);
  // A rank that looks whether this one works has the file locked for a moment.
  bool locked = false;
  do { locked = file_ >= 0 && platform::lock_file(file_); } while (!locked && file_ >= 0 && errno == EWOULDBLOCK);
  if (locked) return;
  const std::string reason = std::strerror(errno);  // NOLINT(concurrency-mt-unsafe)
  if (file_ >= 0) {
    platform::close_file(file_);
    std::filesystem::remove(path, ignored);
  }
  throw error("rank_watch: cannot create and lock " + path.string() + ": " + reason);
}

GRADUS_IMPL rank_watch::~rank_watch() {
  std::error_code ignored;
  if (file_ >= 0) {
    std::filesystem::remove(file_of(rank_), ignored);
    platform::close_file(file_);
  }
  for (index_t rank = 0; rank < size_; ++rank)
    if (std::filesystem::exists(file_of(rank), ignored) && end_of(rank).empty()) return;
  std::filesystem::remove_all(folder_, ignored);
}

GRADUS_IMPL void rank_watch::end(std::string_view why) noexcept {
  if (file_ < 0) return;
  static_cast<void>(platform::write_bytes(file_, why.data(), why.size()) <
                    0);                            // without it the others know that it has ended
  platform::close_file(std::exchange(file_, -1));  // unlocks
}

GRADUS_IMPL std::string rank_watch::failure() const {
  for (index_t rank = 0; rank < size_; ++rank)
    if (rank != rank_)
      if (const std::string why = end_of(rank); !why.empty())
        return "rank " + std::to_string(rank) + " has ended: " + why;
  return {};
}

GRADUS_IMPL std::string rank_watch::end_of(index_t rank) const {
  const std::filesystem::path path = file_of(rank);
  const int file = platform::open_file(path.c_str(), platform::file_use::read);
  if (file < 0) return {};
  std::string why;
  if (platform::lock_file(file, true)) {
    std::array<char, 1000> text{};
    const std::ptrdiff_t n = platform::read_at(file, text.data(), text.size(), 0);
    why = n > 0 ? std::string(text.data(), static_cast<std::size_t>(n)) : "without a word: it was killed, or crashed";
  }
  platform::close_file(file);
  std::error_code ignored;
  return std::filesystem::exists(path, ignored) ? why : std::string();  // else it has just done its work
}

}  // namespace gradus
