// Counts every request that this program makes to the heap, and can refuse one. In a file of its own, so that calls are
// not inlined: the compiler would see free() meet operator new and warn.
#include "counted_heap.hpp"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<std::size_t> requests{0};
std::atomic<long> countdown{-1};
void* counted(std::size_t bytes, std::size_t alignment) {
  ++requests;
  if (bytes >> 40 != 0) return nullptr;  // no machine has that, and sanitizers take the attempt for a fault
  if (countdown >= 0 && countdown-- == 0) return nullptr;
  bytes = (bytes + alignment - 1) / alignment * alignment;
#if defined(_WIN32)
  return _aligned_malloc(bytes == 0 ? alignment : bytes, alignment);
#else
  return std::aligned_alloc(alignment, bytes == 0 ? alignment : bytes);
#endif
}
void give_back(void* p) {
#if defined(_WIN32)
  _aligned_free(p);
#else
  std::free(p);
#endif
}
void* or_throw(void* p) {
  if (p == nullptr) throw std::bad_alloc();
  return p;
}
}  // namespace
std::size_t heap_requests() { return requests; }
void fail_heap_request(long n) { countdown = n; }

void* operator new(std::size_t n) { return or_throw(counted(n, alignof(std::max_align_t))); }
void* operator new[](std::size_t n) { return or_throw(counted(n, alignof(std::max_align_t))); }
void* operator new(std::size_t n, std::align_val_t a) { return or_throw(counted(n, static_cast<std::size_t>(a))); }
void* operator new(std::size_t n, const std::nothrow_t&) noexcept { return counted(n, alignof(std::max_align_t)); }
void* operator new(std::size_t n, std::align_val_t a, const std::nothrow_t&) noexcept {
  return counted(n, static_cast<std::size_t>(a));
}
void operator delete(void* p) noexcept { give_back(p); }
void operator delete[](void* p) noexcept { give_back(p); }
void operator delete(void* p, std::size_t) noexcept { give_back(p); }
void operator delete[](void* p, std::size_t) noexcept { give_back(p); }
void operator delete(void* p, const std::nothrow_t&) noexcept { give_back(p); }
void operator delete(void* p, std::align_val_t) noexcept { give_back(p); }
void operator delete(void* p, std::align_val_t, const std::nothrow_t&) noexcept { give_back(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { give_back(p); }
