#pragma once
#include <cstddef>

/// Requests that this program has made to the heap.
std::size_t heap_requests();
/// The heap request number `n` from now (0 = the next one) throws std::bad_alloc, once; with -1 none does.
void fail_heap_request(long n);
