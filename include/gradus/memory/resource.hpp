#pragma once
// The interface of memory resources.

#include <cstddef>
#include <string_view>

#include "../core/device.hpp"
#include "../core/error.hpp"
#include "activity.hpp"
#include "stream.hpp"

namespace gradus {

/// The purpose of a buffer; statistics and plans are by category.
enum class category { parameter, gradient, optimizer_state, activation, temporary, input, state };
/// Number of categories, for tables by category.
inline constexpr std::size_t category_count = 7;

/// Name of a category, for output.
constexpr std::string_view category_name(category c) {
  constexpr std::string_view names[] = {"parameter", "gradient", "optimizer state", "activation", "temporary",
                                        "input",     "state"};
  return names[static_cast<std::size_t>(c)];
}

/// One request for memory.
struct memory_request {
  std::size_t bytes = 0;
  category what = category::temporary;
  std::size_t id = 0;            ///< number in its context (or in `accounting`); a free has its allocation's
  std::string_view source = {};  ///< name of the requesting operation; empty outside of operations
  gradus::phase phase = gradus::phase::outside;
  static constexpr std::size_t alignment = cpu::alignment;  ///< minimum for every address; a stream may require more
};

namespace detail {
// Rounds `bytes` up to a multiple of `alignment`.
constexpr std::size_t round_up(std::size_t bytes, std::size_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}
}  // namespace detail

/// A source of memory for a type of stream (`memory_resource` for the CPU). Resources compose: statistics, limits and
/// faults are resources over another one. A request of zero bytes returns null; one that cannot be served throws
/// out_of_memory. One thread uses a resource at a time, unless documented otherwise.
template <class Stream>
class basic_resource {
 public:
  using stream_type = Stream;
  basic_resource() = default;
  basic_resource(const basic_resource&) = delete;
  basic_resource& operator=(const basic_resource&) = delete;
  virtual ~basic_resource() = default;

  /// Memory for `request`, usable by work submitted to `on` from now on.
  [[nodiscard]] void* allocate(const memory_request& request, Stream& on) {
    return request.bytes == 0 ? nullptr : do_allocate(request, on);
  }
  /// Frees memory from `allocate`, with the same request; work already submitted to `on` may still use it.
  void deallocate(void* memory, const memory_request& request, Stream& on) noexcept {
    if (memory != nullptr) do_deallocate(memory, request, on);
  }
  /// Declares that work on `by` uses this memory, too: after the free it is kept until the work submitted to `by` so
  /// far has run. `by` must live until the free.
  void used_on(void* memory, const memory_request& request, Stream& by) {
    if (memory != nullptr) do_used_on(memory, request, by);
  }

 private:
  virtual void* do_allocate(const memory_request& request, Stream& on) = 0;
  virtual void do_deallocate(void* memory, const memory_request& request, Stream& on) noexcept = 0;
  // Does nothing, which suffices if work runs when submitted. A resource over another one forwards it.
  virtual void do_used_on(void*, const memory_request&, Stream&) {}
};

/// The base of resources over another one.
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
