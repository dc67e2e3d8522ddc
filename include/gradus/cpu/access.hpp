#pragma once
// Memory access on the CPU: zero, fill and copy, in parallel.

#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

#include "../memory/context.hpp"
#include "parallel.hpp"

namespace gradus {

template <>
struct device_access<cpu> {
  static void zero(context<cpu>& ctx, void* to, std::size_t bytes) {
    for_ranges(ctx, bytes, run, [=](index_t first, index_t last) { std::memset(at(to, first), 0, last - first); });
  }
  static void copy(context<cpu>& ctx, void* to, const void* from, std::size_t bytes) {
    for_ranges(ctx, bytes, run, [=](index_t first, index_t last) {
      std::memcpy(at(to, first), static_cast<const std::byte*>(from) + first, last - first);
    });
  }
  static void upload(context<cpu>& ctx, void* to, const void* from, std::size_t bytes) { copy(ctx, to, from, bytes); }
  static void download(context<cpu>& ctx, void* to, const void* from, std::size_t bytes) { copy(ctx, to, from, bytes); }
  static void download_later(context<cpu>& ctx, void* to, const void* from, std::size_t bytes) {
    copy(ctx, to, from, bytes);
  }
  /// Host memory for values to upload or download.
  template <class T>
  class host_values {
    std::vector<T> values_;

   public:
    explicit host_values(index_t size) : values_(size) {}
    std::span<T> all() { return values_; }
    std::span<const T> all() const { return values_; }
  };

  /// Runs f(begin, end) on ranges of n elements, on the context's threads.
  template <class F>
  static void for_ranges(context<cpu>& ctx, index_t n, index_t grain, const F& f) {
    if (n <= grain) f(index_t{0}, n);
    else cpu_kit::parallel_elements(ctx, n, grain, f);
  }

 private:
  static constexpr index_t run = 1 << 17;  // bytes
  static std::byte* at(void* to, index_t offset) { return static_cast<std::byte*>(to) + offset; }
};

}  // namespace gradus
