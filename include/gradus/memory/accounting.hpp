#pragma once
// The memory resource of the meta device: counts bytes and traces requests.

#include <array>
#include <cstddef>
#include <span>
#include <string_view>

#include "../core/device.hpp"
#include "../core/extent.hpp"
#include "context.hpp"
#include "trace_writer.hpp"

namespace gradus {

/// The memory resource of the meta device: counts the bytes requested and allocates none. Between start() and finish()
/// it also writes each event to a trace. Usable in constant expressions.
class accounting final : public observer {
 public:
  constexpr accounting() = default;
  // NOLINTNEXTLINE(modernize-use-equals-default): in constant expressions, g++ 12 does not call a defaulted one
  constexpr ~accounting() override {}

  constexpr void* allocate(memory_request& request, meta_stream&) {
    request.id = requests_++;
    change(request.what, live_ + request.bytes, live_by_[index_of(request.what)] + request.bytes);
    if (live_ > peak_) peak_ = live_;
    if (writer_.writing()) writer_.asked(request);
    return nullptr;
  }
  constexpr void deallocate(void*, const memory_request& request, meta_stream&) noexcept {
    change(request.what, live_ - request.bytes, live_by_[index_of(request.what)] - request.bytes);
    if (writer_.writing() && request.id >= first_request_) writer_.ended(request.id - first_request_);
  }

  constexpr void used_on(void*, const memory_request&, meta_stream&) {}

  constexpr std::size_t live_bytes() const { return live_; }
  constexpr std::size_t peak_bytes() const { return peak_; }

  /// Writes all later events to `trace`, which must live until finish(). Operations are traced if the context has this
  /// as its observer.
  constexpr void start(step_trace& trace) {
    writer_.start(trace, live_by_);
    first_request_ = requests_;
  }
  /// Ends the trace. Blocks that outlive the step count as live before it, as in every later step.
  constexpr void finish() { writer_.finish(); }

  constexpr void begin(const activity& what) override {
    if (writer_.writing()) writer_.begin(what);
  }
  constexpr void end(const activity&) override {
    if (writer_.writing()) writer_.end();
  }
  constexpr void saved(std::string_view by, const memory_request& request) override {
    if (writer_.writing() && request.id >= first_request_) writer_.saved(by, request.id - first_request_);
  }

 private:
  static constexpr std::size_t index_of(category c) { return static_cast<std::size_t>(c); }
  constexpr void change(category c, std::size_t live, std::size_t live_by) {
    live_ = live;
    live_by_[index_of(c)] = live_by;
  }

  std::size_t live_ = 0;
  std::size_t peak_ = 0;
  std::size_t requests_ = 0;
  std::array<std::size_t, category_count> live_by_{};
  trace_writer writer_;
  std::size_t first_request_ = 0;
};

context(meta_stream&, accounting&) -> context<meta>;

/// Moves nothing: there are no bytes.
template <class D>
  requires(!D::computes)
struct device_access<D> {
  static constexpr void zero(context<D>&, void*, std::size_t) {}
  static constexpr void copy(context<D>&, void*, const void*, std::size_t) {}
  static constexpr void upload(context<D>&, void*, const void*, std::size_t) {}
  static constexpr void download(context<D>&, void*, const void*, std::size_t) {}
  static constexpr void download_later(context<D>&, void*, const void*, std::size_t) {}
  template <class T>
  struct host_values {
    constexpr explicit host_values(index_t) {}
    constexpr std::span<T> all() const { return {}; }
  };
};

}  // namespace gradus
