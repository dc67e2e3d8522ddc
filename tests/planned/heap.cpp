// Counts every request to the heap of this program: operator new by way of malloc, and malloc's whole family.
#include "heap.hpp"

#include <atomic>
#include <cerrno>
#include <cstddef>

namespace {
std::atomic<std::size_t> requests{0};
}

std::size_t heap_requests() { return requests; }

#if GRADUS_COUNTS_HEAP
// glibc's own entry points behind the names that we take over.
extern "C" {
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
void __libc_free(void*);
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

void* malloc(std::size_t n) {
  ++requests;
  return __libc_malloc(n);
}
void* calloc(std::size_t n, std::size_t size) {
  ++requests;
  return __libc_calloc(n, size);
}
void* realloc(void* p, std::size_t n) {
  ++requests;
  return __libc_realloc(p, n);
}
void* memalign(std::size_t alignment, std::size_t n) {
  ++requests;
  return __libc_memalign(alignment, n);
}
void* aligned_alloc(std::size_t alignment, std::size_t n) {
  ++requests;
  return __libc_memalign(alignment, n);
}
int posix_memalign(void** p, std::size_t alignment, std::size_t n) {
  ++requests;
  *p = __libc_memalign(alignment, n);
  return *p == nullptr ? ENOMEM : 0;
}
void free(void* p) { __libc_free(p); }
}
#endif
