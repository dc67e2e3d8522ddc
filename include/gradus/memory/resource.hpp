#pragma once
#include <cstddef>
#include <string_view>

#include "../core/error.hpp"
#include "stream.hpp"

namespace gradus {

/// What a buffer is for; statistics and plans are kept by category.
enum class category { parameter, gradient, optimizer_state, activation, temporary, input };
inline constexpr std::size_t category_count = 6;

/// Name of a category, as printed.
constexpr std::string_view category_name(category c) {
  constexpr std::string_view names[] = {"parameter", "gradient", "optimizer state", "activation", "temporary", "input"};
  return names[static_cast<std::size_t>(c)];
}

/// One request for memory.
struct memory_request {
  std::size_t bytes = 0;
  category what = category::temporary;
  static constexpr std::size_t alignment = 64;  ///< of every returned address: one cache line, one AVX-512 register
};

/// Where CPU memory comes from. Resources compose: statistics, limits and faults are resources over another resource.
/// A request of zero bytes returns null; a request that cannot be served throws out_of_memory.
class memory_resource {
 public:
  memory_resource() = default;
  memory_resource(const memory_resource&) = delete;
  memory_resource& operator=(const memory_resource&) = delete;
  virtual ~memory_resource() = default;

  /// Memory for `request`, usable by work submitted to `on` from now.
  [[nodiscard]] void* allocate(const memory_request& request, stream& on) {
    return request.bytes == 0 ? nullptr : do_allocate(request, on);
  }
  /// Returns memory from `allocate` with the same request; work already submitted to `on` may still use it.
  void deallocate(void* memory, const memory_request& request, stream& on) noexcept {
    if (memory != nullptr) do_deallocate(memory, request, on);
  }

 private:
  virtual void* do_allocate(const memory_request& request, stream& on) = 0;
  virtual void do_deallocate(void* memory, const memory_request& request, stream& on) noexcept = 0;
};

}  // namespace gradus
