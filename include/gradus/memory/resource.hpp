#pragma once
#include <cstddef>
#include <string_view>

#include "../core/device.hpp"
#include "../core/error.hpp"
#include "activity.hpp"
#include "stream.hpp"

namespace gradus {

/// What a buffer is for; statistics and plans are kept by category.
enum class category { parameter, gradient, optimizer_state, activation, temporary, input };
/// Number of categories, for tables by category.
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
  std::size_t id = 0;  ///< number in its context, or of all that `accounting` saw; a block's end names its beginning
  std::string_view source = {};  ///< name of the operation that asked; empty outside of operations
  gradus::phase phase = gradus::phase::outside;
  static constexpr std::size_t alignment =
      cpu::alignment;  ///< of every returned address, at least; a stream may want more
};

namespace detail {
// `bytes` in whole units of `alignment`.
constexpr std::size_t round_up(std::size_t bytes, std::size_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}
}  // namespace detail

/// Where memory comes from, on a kind of stream (`memory_resource` is that of the CPU). Resources compose: statistics,
/// limits and faults are resources over another resource. A request of zero bytes returns null; a request that cannot
/// be served throws out_of_memory. One thread uses a resource at a time, unless it says otherwise.
template <class Stream>
class basic_resource {
 public:
  using stream_type = Stream;
  basic_resource() = default;
  basic_resource(const basic_resource&) = delete;
  basic_resource& operator=(const basic_resource&) = delete;
  virtual ~basic_resource() = default;

  /// Memory for `request`, usable by work submitted to `on` from now.
  [[nodiscard]] void* allocate(const memory_request& request, Stream& on) {
    return request.bytes == 0 ? nullptr : do_allocate(request, on);
  }
  /// Returns memory from `allocate` with the same request; work already submitted to `on` may still use it.
  void deallocate(void* memory, const memory_request& request, Stream& on) noexcept {
    if (memory != nullptr) do_deallocate(memory, request, on);
  }
  /// Says that work on `by`, too, uses this memory from `allocate`: once given back, it is kept until what was
  /// submitted to `by` by then has run. `by` has to live until the memory is given back.
  void used_on(void* memory, const memory_request& request, Stream& by) {
    if (memory != nullptr) do_used_on(memory, request, by);
  }

 private:
  virtual void* do_allocate(const memory_request& request, Stream& on) = 0;
  virtual void do_deallocate(void* memory, const memory_request& request, Stream& on) noexcept = 0;
  // Enough where work is done as it is submitted. A resource on top of another one passes it on.
  virtual void do_used_on(void*, const memory_request&, Stream&) {}
};

/// What resources over another one have in common.
template <class Stream>
class resource_adaptor : public basic_resource<Stream> {
 protected:
  explicit resource_adaptor(basic_resource<Stream>& from) : from_(&from) {}
  basic_resource<Stream>& from() const { return *from_; }

 private:
  void do_used_on(void* memory, const memory_request& request, Stream& by) override {
    from_->used_on(memory, request, by);
  }
  basic_resource<Stream>* from_;
};

}  // namespace gradus
