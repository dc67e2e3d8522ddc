#pragma once
#include <cstddef>
#include <string>

#include "../memory/resource.hpp"

namespace gradus::testing {

/// Passes requests on until the n-th from now, which it refuses: for showing that nothing leaks when memory runs out.
class failing_resource final : public memory_resource {
 public:
  explicit failing_resource(memory_resource& from) : from_(&from) {}
  /// The request number `n` from now (0 = the next one) throws out_of_memory, once.
  void fail_at(std::size_t n) {
    countdown_ = n;
    armed_ = true;
  }
  bool armed() const { return armed_; }
  std::size_t live() const { return live_; }
  std::size_t requests() const { return requests_; }

 private:
  void* do_allocate(const memory_request& request, stream& on) override {
    ++requests_;
    if (armed_ && countdown_-- == 0) {
      armed_ = false;
      throw out_of_memory("injected fault: " + std::to_string(request.bytes) + " bytes refused");
    }
    void* memory = from_->allocate(request, on);
    live_ += request.bytes;
    return memory;
  }
  void do_deallocate(void* memory, const memory_request& request, stream& on) noexcept override {
    live_ -= request.bytes;
    from_->deallocate(memory, request, on);
  }

  memory_resource* from_;
  std::size_t countdown_ = 0;
  std::size_t live_ = 0;
  std::size_t requests_ = 0;
  bool armed_ = false;
};

}  // namespace gradus::testing
