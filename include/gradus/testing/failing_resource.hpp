#pragma once
// Injects allocation failures.

#include <cstddef>

#include "../memory/diagnostics.hpp"
#include "../memory/resource.hpp"

namespace gradus::testing {

/// Forwards requests to another resource, but fails the n-th from now: to test that nothing leaks when memory runs out.
template <class Stream>
class basic_failing_resource final : public resource_adaptor<Stream> {
 public:
  explicit basic_failing_resource(basic_resource<Stream>& from) : resource_adaptor<Stream>(from) {}
  /// Request number `n` from now (0: the next) and the `times` - 1 after it throw out_of_memory.
  void fail_at(std::size_t n, std::size_t times = 1) {
    countdown_ = n;
    left_ = times;
  }
  /// True while a failure is pending.
  bool armed() const { return left_ > 0; }
  std::size_t live() const { return live_; }
  std::size_t requests() const { return requests_; }

 private:
  void* do_allocate(const memory_request& request, Stream& on) override {
    ++requests_;
    if (left_ > 0 && countdown_ == 0) {
      --left_;
      throw shortage("injected fault", request, {.live = live_});
    }
    if (left_ > 0) --countdown_;
    void* memory = this->from().allocate(request, on);
    live_ += request.bytes;
    return memory;
  }
  void do_deallocate(void* memory, const memory_request& request, Stream& on) noexcept override {
    gradus::detail::take_off(live_, "failing_resource", memory, request);
    this->from().deallocate(memory, request, on);
  }

  std::size_t countdown_ = 0;
  std::size_t left_ = 0;
  std::size_t live_ = 0;
  std::size_t requests_ = 0;
};

using failing_resource = basic_failing_resource<stream>;  ///< on the CPU

}  // namespace gradus::testing
