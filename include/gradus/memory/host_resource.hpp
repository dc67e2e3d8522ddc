#pragma once
#include <new>
#include <string>

#include "resource.hpp"

namespace gradus {

/// The operating system's heap.
class host_resource final : public memory_resource {
  void* do_allocate(const memory_request& request, stream&) override {
    void* memory = ::operator new(request.bytes, std::align_val_t{memory_request::alignment}, std::nothrow);
    if (memory == nullptr)
      throw out_of_memory("host memory: " + std::to_string(request.bytes) + " bytes asked for, none of that size left");
    return memory;
  }
  void do_deallocate(void* memory, const memory_request&, stream&) noexcept override {
    ::operator delete(memory, std::align_val_t{memory_request::alignment});
  }
};

}  // namespace gradus
