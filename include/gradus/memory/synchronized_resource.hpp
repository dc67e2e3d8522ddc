#pragma once
// A lock around a resource.

#include <mutex>

#include "resource.hpp"

namespace gradus {

/// Makes another resource, with its upstream resources, thread-safe: forwards one request at a time.
template <class Stream>
class basic_synchronized_resource final : public resource_adaptor<Stream> {
 public:
  explicit basic_synchronized_resource(basic_resource<Stream>& from) : resource_adaptor<Stream>(from) {}

 private:
  void* do_allocate(const memory_request& request, Stream& on) override {
    const std::scoped_lock lock(mutex_);
    return this->from().allocate(request, on);
  }
  void do_deallocate(void* memory, const memory_request& request, Stream& on) noexcept override {
    const std::scoped_lock lock(mutex_);
    this->from().deallocate(memory, request, on);
  }
  void do_used_on(void* memory, const memory_request& request, Stream& by) override {
    const std::scoped_lock lock(mutex_);
    this->from().used_on(memory, request, by);
  }

  std::mutex mutex_;
};

using synchronized_resource = basic_synchronized_resource<stream>;  ///< on the CPU

}  // namespace gradus
