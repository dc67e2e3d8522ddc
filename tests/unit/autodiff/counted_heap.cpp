// Counts every request that this program makes to the heap. In a file of its own, so that calls are not inlined: the compiler
// would see free() meet operator new and warn.
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

std::size_t heap_requests();

namespace {
std::atomic<std::size_t> requests{0};
void* counted(std::size_t bytes, std::size_t alignment) {
  ++requests;
  bytes = (bytes + alignment - 1) / alignment * alignment;
  return std::aligned_alloc(alignment, bytes == 0 ? alignment : bytes);
}
void* or_throw(void* p) {
  if (p == nullptr) throw std::bad_alloc();
  return p;
}
}  // namespace
std::size_t heap_requests() { return requests; }

void* operator new(std::size_t n) { return or_throw(counted(n, alignof(std::max_align_t))); }
void* operator new[](std::size_t n) { return or_throw(counted(n, alignof(std::max_align_t))); }
void* operator new(std::size_t n, std::align_val_t a) { return or_throw(counted(n, static_cast<std::size_t>(a))); }
void* operator new(std::size_t n, const std::nothrow_t&) noexcept { return counted(n, alignof(std::max_align_t)); }
void* operator new(std::size_t n, std::align_val_t a, const std::nothrow_t&) noexcept {
  return counted(n, static_cast<std::size_t>(a));
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, const std::nothrow_t&) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t, const std::nothrow_t&) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
