#pragma once
#include <array>
#include <cstddef>

#include "../core/device.hpp"
#include "../memory/resource.hpp"

namespace gradus {

/// The memory of the accounting device: hands out no bytes and counts them all. Usable in constant expressions.
class accounting {
 public:
  constexpr void* allocate(const memory_request& request, meta_stream&) {
    live_ += request.bytes;
    ++allocations_;
    if (live_ > peak_) peak_ = live_;
    return nullptr;
  }
  constexpr void deallocate(void*, const memory_request& request, meta_stream&) noexcept { live_ -= request.bytes; }

  constexpr std::size_t live_bytes() const { return live_; }
  constexpr std::size_t peak_bytes() const { return peak_; }
  constexpr std::size_t allocations() const { return allocations_; }

 private:
  std::size_t live_ = 0;
  std::size_t peak_ = 0;
  std::size_t allocations_ = 0;
};

context(meta_stream&, accounting&) -> context<meta>;

/// Bytes that do not exist need not move.
template <>
struct device_access<meta> {
  static constexpr void zero(context<meta>&, void*, std::size_t) {}
  static constexpr void copy(context<meta>&, void*, const void*, std::size_t) {}
  static constexpr void upload(context<meta>&, void*, const void*, std::size_t) {}
  static constexpr void download(context<meta>&, void*, const void*, std::size_t) {}
};

}  // namespace gradus
