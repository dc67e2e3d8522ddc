#pragma once
#include <cstddef>
#include <string>

#include "resource.hpp"

namespace gradus {

/// Refuses requests that would bring the live bytes above a limit.
class limit_resource final : public memory_resource {
 public:
  limit_resource(memory_resource& from, std::size_t limit_bytes) : from_(&from), limit_(limit_bytes) {}
  std::size_t live() const { return live_; }
  std::size_t limit() const { return limit_; }

 private:
  void* do_allocate(const memory_request& request, stream& on) override {
    if (request.bytes > limit_ - live_)
      throw out_of_memory("memory limit: asked " + std::to_string(request.bytes) + " bytes with " +
                          std::to_string(live_) + " live of a limit of " + std::to_string(limit_) + "; at most " +
                          std::to_string(limit_ - live_) + " would fit");
    void* memory = from_->allocate(request, on);
    live_ += request.bytes;
    return memory;
  }
  void do_deallocate(void* memory, const memory_request& request, stream& on) noexcept override {
    live_ -= request.bytes;
    from_->deallocate(memory, request, on);
  }

  memory_resource* from_;
  std::size_t limit_;
  std::size_t live_ = 0;
};

}  // namespace gradus
