#pragma once
// A limit on live bytes.

#include <cstddef>

#include "diagnostics.hpp"
#include "resource.hpp"

namespace gradus {

/// Throws out_of_memory for requests that would exceed a limit of live bytes.
template <class Stream>
class basic_limit_resource final : public resource_adaptor<Stream> {
 public:
  basic_limit_resource(basic_resource<Stream>& from, std::size_t limit_bytes)
      : resource_adaptor<Stream>(from), limit_(limit_bytes) {}
  std::size_t live() const { return live_; }

 private:
  void* do_allocate(const memory_request& request, Stream& on) override {
    if (request.bytes > limit_ - live_)
      throw shortage("memory limit", request, {.live = live_, .limit = limit_, .fits = limit_ - live_});
    void* memory = this->from().allocate(request, on);
    live_ += request.bytes;
    return memory;
  }
  void do_deallocate(void* memory, const memory_request& request, Stream& on) noexcept override {
    detail::take_off(live_, "limit_resource", memory, request);
    this->from().deallocate(memory, request, on);
  }

  std::size_t limit_;
  std::size_t live_ = 0;
};

using limit_resource = basic_limit_resource<stream>;  ///< on the CPU

}  // namespace gradus
