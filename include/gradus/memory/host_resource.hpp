#pragma once
#include <cstddef>
#include <limits>
#include <new>
#include <string>

#include "resource.hpp"

namespace gradus {

/// The operating system's heap.
class host_resource final : public memory_resource {
  void* do_allocate(const memory_request& request, stream&) override {
    // Close to the largest size_t, rounding up to the alignment would wrap around inside operator new.
    constexpr std::size_t most = std::numeric_limits<std::ptrdiff_t>::max();
    void* memory = request.bytes > most ? nullptr
                                        : ::operator new(request.bytes, std::align_val_t{memory_request::alignment}, std::nothrow);
    if (memory == nullptr)
      throw out_of_memory("host memory: " + std::to_string(request.bytes) + " bytes asked for, none of that size left");
    return memory;
  }
  void do_deallocate(void* memory, const memory_request&, stream&) noexcept override {
    ::operator delete(memory, std::align_val_t{memory_request::alignment});
  }
};

}  // namespace gradus
