#pragma once
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <string>
#include <utility>

#include "../core/platform.hpp"
#include "file_resource.hpp"

namespace gradus {

GRADUS_IMPL file_resource::file_resource(const std::filesystem::path& folder) : folder_(folder) {
  file_ = platform::unnamed_file(folder.c_str());
  if (file_ >= 0) return;
  if (errno == ENOTSUP) throw error(folder.string() + ": memory in a file (file_resource) needs Linux");
  throw error(folder.string() + ": no file for parameters and states can be made here: " + std::strerror(errno));
}

GRADUS_IMPL file_resource::~file_resource() {
  if (!blocks_.empty()) ended_too_early("file_resource", std::to_string(blocks_.size()) + " blocks");
  if (thread_.joinable()) {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  platform::close_file(file_);
}

GRADUS_IMPL void* file_resource::do_allocate(const memory_request& request, stream&) {
  const std::size_t bytes = detail::round_up(request.bytes, platform::page_bytes());
  if (const int problem = platform::reserve_bytes(file_, end_, bytes); problem != 0)
    throw out_of_memory(folder_.string() + ": no room on the disk for " + bytes_text(request.bytes) + " of " +
                            purpose_text(request) + ", beside " + bytes_text(bytes_) +
                            " so far: " + std::strerror(problem),
                        {.asked = request.bytes, .live = bytes_});
  void* const memory = platform::map_shared(file_, end_, bytes);
  if (memory == nullptr) throw shortage("a mapped file in " + folder_.string(), request, {.live = bytes_});
  try {
    blocks_[static_cast<const std::byte*>(memory)] = {bytes, end_};
  } catch (...) {
    platform::unmap(memory, bytes);
    throw;
  }
  drop(latest_.begin, latest_.bytes);
  latest_ = {memory, bytes};
  end_ += bytes;
  bytes_ += bytes;
  return memory;
}

GRADUS_IMPL void file_resource::do_deallocate(void* memory, const memory_request& request, stream&) noexcept {
  const auto at = blocks_.find(static_cast<const std::byte*>(memory));
  if (at == blocks_.end()) memory_misuse("file_resource", "is not a block of it", memory, request);
  const block b = at->second;
  if (latest_.begin == memory) latest_ = {};
  blocks_.erase(at);
  bytes_ -= b.bytes;
  platform::unmap(memory, b.bytes);
  platform::free_bytes(file_, b.offset, b.bytes);
}

GRADUS_IMPL void file_resource::drop(const void* begin, std::size_t bytes) const noexcept {
  const range r = pages_of(begin, bytes);
  if (r.bytes > 0) platform::drop_pages(r.begin, r.bytes);
}

GRADUS_IMPL void file_resource::write_back(const void* begin, std::size_t bytes) const noexcept {
  const range r = pages_of(begin, bytes);
  if (r.bytes > 0) platform::write_back(file_, r.offset, r.bytes);
}

GRADUS_IMPL void file_resource::run(const job& what) {
  if (what.begin != nullptr) return platform::read_ahead(file_, what.offset, const_cast<void*>(what.begin), what.bytes);
  for (std::size_t at = 0; at < what.bytes;) {
    const std::ptrdiff_t got =
        platform::read_at(file_, static_cast<std::byte*>(what.to) + at, what.bytes - at, what.offset + at);
    if (got <= 0)
      throw error(folder_.string() +
                  ": parameters cannot be read: " + (got == 0 ? "the file has become shorter" : std::strerror(errno)));
    at += static_cast<std::size_t>(got);
  }
}

GRADUS_IMPL std::size_t file_resource::bytes() const { return bytes_; }

GRADUS_IMPL std::uint64_t file_resource::read_ahead(const void* begin, std::size_t bytes) {
  const range r = pages_of(begin, bytes);
  return r.bytes > 0 ? submit({r.begin, r.offset, nullptr, r.bytes}) : 0;
}

GRADUS_IMPL std::uint64_t file_resource::start_copy(const void* begin, void* to, std::size_t bytes) {
  const range r = pages_of(begin, bytes);
  if (r.bytes == 0 && bytes > 0) throw error("file_resource.start_copy: the bytes are not in a block of the file");
  const auto into = static_cast<std::size_t>(static_cast<const std::byte*>(begin) - r.begin);
  return submit({nullptr, r.offset + into, to, bytes});
}

GRADUS_IMPL void file_resource::finish(std::uint64_t number) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return done_ >= number; });
  if (!failure_.empty()) throw error(std::exchange(failure_, {}));
}

GRADUS_IMPL file_resource::range file_resource::pages_of(const void* begin, std::size_t bytes) const noexcept {
  const auto* const first = static_cast<const std::byte*>(begin);
  auto at = blocks_.upper_bound(first);
  if (bytes == 0 || at == blocks_.begin()) return {};
  at = std::prev(at);
  const auto from = static_cast<std::size_t>(first - at->first);
  const auto& [size, offset] = at->second;
  if (from >= size || bytes > size - from) return {};
  const std::size_t page = platform::page_bytes(), skipped = from / page * page,
                    end = std::min(size, detail::round_up(from + bytes, page));
  return {const_cast<std::byte*>(at->first) + skipped, end - skipped, offset + skipped};
}

GRADUS_IMPL std::uint64_t file_resource::submit(const job& what) {
  std::uint64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
    jobs_.push_back(what);
    number = ++submitted_;
  }
  changed_.notify_all();
  return number;
}

GRADUS_IMPL void file_resource::work() noexcept {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return ends_ || !jobs_.empty(); });
    if (ends_) return;
    const job next = jobs_.front();
    jobs_.pop_front();
    lock.unlock();
    std::string problem;
    try {
      run(next);
    } catch (const error& e) { problem = e.what(); }
    lock.lock();
    if (failure_.empty()) failure_ = std::move(problem);
    ++done_;
    changed_.notify_all();
  }
}

}  // namespace gradus
