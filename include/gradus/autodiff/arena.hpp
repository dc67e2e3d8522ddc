#pragma once
#include <cstddef>
#include <new>
#include <vector>

#include "../memory/poison.hpp"

namespace gradus {

/// Chunks of memory in which nodes are placed one after another; kept from step to step. What holds no object is
/// poisoned in builds with the address sanitizer.
class arena {
 public:
  static constexpr std::size_t chunk_bytes = 64 * 1024;

  constexpr arena() = default;
  arena(const arena&) = delete;
  arena& operator=(const arena&) = delete;
  constexpr ~arena() {
    for (std::byte* chunk : chunks_) ::operator delete(chunk);
  }

  /// Memory for one object of `bytes` (at most a chunk), aligned to `alignment` (at most that of std::max_align_t).
  void* allocate(std::size_t bytes, std::size_t alignment) {
    std::size_t at = (used_ + alignment - 1) / alignment * alignment;
    if (current_ == chunks_.size() || at + bytes > chunk_bytes) {
      if (current_ < chunks_.size()) ++current_;
      if (current_ == chunks_.size()) {
        chunks_.reserve(chunks_.size() + 1);
        chunks_.push_back(static_cast<std::byte*>(::operator new(chunk_bytes)));
        detail::poison(chunks_.back(), chunk_bytes);
      }
      at = 0;
    }
    used_ = at + bytes;
    detail::unpoison(chunks_[current_] + at, bytes);
    return chunks_[current_] + at;
  }
  /// Forgets all objects and keeps the chunks.
  constexpr void rewind() {
    if constexpr (detail::poisons)
      for (const std::byte* chunk : chunks_) detail::poison(chunk, chunk_bytes);
    current_ = 0;
    used_ = 0;
  }

 private:
  std::vector<std::byte*> chunks_;
  std::size_t current_ = 0;
  std::size_t used_ = 0;
};

}  // namespace gradus
