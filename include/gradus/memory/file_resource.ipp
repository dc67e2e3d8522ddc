#pragma once
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <string>
#include <utility>

#if defined(__linux__)
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#endif

#include "file_resource.hpp"

namespace gradus {

#if defined(__linux__)

GRADUS_IMPL file_resource::file_resource(const std::filesystem::path& folder) : folder_(folder) {
  std::string name = (folder / "gradus-XXXXXX").string();
  file_ = ::mkostemp(name.data(), O_CLOEXEC);
  if (file_ < 0)
    throw error(folder.string() + ": no file for parameters and states can be made here: " + std::strerror(errno));
  ::unlink(name.c_str());
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
  ::close(file_);
}

GRADUS_IMPL void* file_resource::do_allocate(const memory_request& request, stream&) {
  const std::size_t bytes = detail::round_up(request.bytes, page_bytes());
  if (const int problem = ::posix_fallocate(file_, static_cast<off_t>(end_), static_cast<off_t>(bytes)); problem != 0)
    throw out_of_memory(folder_.string() + ": no room on the disk for " + bytes_text(request.bytes) + " of " +
                            purpose_text(request) + ", beside " + bytes_text(bytes_) +
                            " so far: " + std::strerror(problem),
                        {.asked = request.bytes, .live = bytes_});
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_, static_cast<off_t>(end_));
  if (memory == MAP_FAILED) throw shortage("a mapped file in " + folder_.string(), request, {.live = bytes_});
  try {
    blocks_[static_cast<const std::byte*>(memory)] = {bytes, end_};
  } catch (...) {
    ::munmap(memory, bytes);
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
  ::munmap(memory, b.bytes);
  ::fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(b.offset),
              static_cast<off_t>(b.bytes));
}

GRADUS_IMPL void file_resource::drop(const void* begin, std::size_t bytes) const noexcept {
  const range r = pages_of(begin, bytes);
  if (r.bytes > 0) ::madvise(r.begin, r.bytes, MADV_DONTNEED);
}

GRADUS_IMPL void file_resource::write_back(const void* begin, std::size_t bytes) const noexcept {
  const range r = pages_of(begin, bytes);
  if (r.bytes > 0)
    ::sync_file_range(file_, static_cast<off_t>(r.offset), static_cast<off_t>(r.bytes), SYNC_FILE_RANGE_WRITE);
}

GRADUS_IMPL void file_resource::run(const job& what) {
  if (what.begin != nullptr) {
#if defined(MADV_POPULATE_WRITE)
    if (::madvise(const_cast<void*>(what.begin), what.bytes, MADV_POPULATE_WRITE) == 0) return;
#endif
    ::readahead(file_, static_cast<off_t>(what.offset), what.bytes);
    return;
  }
  for (std::size_t at = 0; at < what.bytes;) {
    const ssize_t got =
        ::pread(file_, static_cast<std::byte*>(what.to) + at, what.bytes - at, static_cast<off_t>(what.offset + at));
    if (got <= 0)
      throw error(folder_.string() +
                  ": parameters cannot be read: " + (got == 0 ? "the file has become shorter" : std::strerror(errno)));
    at += static_cast<std::size_t>(got);
  }
}

GRADUS_IMPL std::size_t file_resource::page_bytes() { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }

#else

GRADUS_IMPL file_resource::file_resource(const std::filesystem::path& folder) {
  throw error(folder.string() + ": memory in a file (file_resource) needs Linux");
}
GRADUS_IMPL file_resource::~file_resource() = default;
GRADUS_IMPL void* file_resource::do_allocate(const memory_request&, stream&) { return nullptr; }
GRADUS_IMPL void file_resource::do_deallocate(void*, const memory_request&, stream&) noexcept {}
GRADUS_IMPL void file_resource::drop(const void*, std::size_t) const noexcept {}
GRADUS_IMPL void file_resource::write_back(const void*, std::size_t) const noexcept {}
GRADUS_IMPL void file_resource::run(const job&) {}
GRADUS_IMPL std::size_t file_resource::page_bytes() { return 4096; }

#endif

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
  const std::size_t page = page_bytes(), skipped = from / page * page,
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
