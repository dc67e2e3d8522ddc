#pragma once
#include <cstddef>
#include <cstring>

#include "../memory/context.hpp"
#include "parallel.hpp"

namespace gradus {

template <>
struct device_access<cpu> {
  static void zero(context<cpu>& ctx, void* to, std::size_t bytes) {
    for_ranges(ctx, bytes, run, [=](index first, index last) { std::memset(at(to, first), 0, last - first); });
  }
  static void copy(context<cpu>& ctx, void* to, const void* from, std::size_t bytes) {
    for_ranges(ctx, bytes, run, [=](index first, index last) {
      std::memcpy(at(to, first), static_cast<const std::byte*>(from) + first, last - first);
    });
  }
  static void upload(context<cpu>& ctx, void* to, const void* from, std::size_t bytes) { copy(ctx, to, from, bytes); }
  static void download(context<cpu>& ctx, void* to, const void* from, std::size_t bytes) { copy(ctx, to, from, bytes); }

  /// f(begin, end) on ranges of n elements, on the context's threads.
  template <class F>
  static void for_ranges(context<cpu>& ctx, index n, index grain, const F& f) {
    if (n <= grain) f(index{0}, n);
    else cpu_kit::parallel_elements(ctx, n, grain, f);
  }

 private:
  static constexpr index run = 1 << 17;  // bytes
  static std::byte* at(void* to, index offset) { return static_cast<std::byte*>(to) + offset; }
};

}  // namespace gradus
