#pragma once
// CPU memory from the operating system.

#include <cstddef>
#include <limits>
#include <new>

#include "../core/platform.hpp"
#include "diagnostics.hpp"
#include "resource.hpp"

namespace gradus {

/// The heap of the operating system. Large requests are aligned to 2 MiB and ask for huge pages: fewer page faults.
class host_resource final : public memory_resource {
  static constexpr std::size_t huge_page = std::size_t{2} << 20;

  static std::align_val_t alignment(const memory_request& request) {
    return std::align_val_t{request.bytes >= 2 * huge_page ? huge_page : memory_request::alignment};
  }
  void* do_allocate(const memory_request& request, stream&) override {
    // Near the largest size_t, operator new would wrap around when it rounds up to the alignment.
    constexpr auto most = static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max());
    void* memory = request.bytes > most ? nullptr : ::operator new(request.bytes, alignment(request), std::nothrow);
    if (memory == nullptr) throw shortage("host memory", request, {});
    if (request.bytes >= 2 * huge_page) platform::prefer_huge_pages(memory, request.bytes);
    return memory;
  }
  void do_deallocate(void* memory, const memory_request& request, stream&) noexcept override {
    ::operator delete(memory, alignment(request));
  }
};

}  // namespace gradus
