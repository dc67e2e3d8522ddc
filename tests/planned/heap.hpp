#pragma once
#include <cstddef>

// Sanitizers have a heap of their own, and other C libraries other names.
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define GRADUS_COUNTS_HEAP 1
#else
#define GRADUS_COUNTS_HEAP 0
#endif
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#undef GRADUS_COUNTS_HEAP
#define GRADUS_COUNTS_HEAP 0
#endif
#endif

/// Requests to malloc, calloc, realloc and their aligned kin so far, by anybody in this program.
std::size_t heap_requests();
