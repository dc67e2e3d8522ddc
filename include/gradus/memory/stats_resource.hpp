#pragma once
// Statistics of memory by category.

#include <array>
#include <cstddef>

#include "diagnostics.hpp"
#include "resource.hpp"

namespace gradus {

/// Forwards requests to another resource and counts live and peak bytes, in total and by category.
template <class Stream>
class basic_stats_resource final : public resource_adaptor<Stream> {
 public:
  explicit basic_stats_resource(basic_resource<Stream>& from) : resource_adaptor<Stream>(from) {}

  struct counts {
    std::size_t live = 0;         ///< bytes now
    std::size_t peak = 0;         ///< most bytes at once
    std::size_t total = 0;        ///< bytes ever requested
    std::size_t allocations = 0;  ///< requests served
  };
  const counts& all() const { return all_; }
  const counts& of(category c) const { return by_category_[static_cast<std::size_t>(c)]; }
  /// Bytes of a category at the time of all().peak. They add up to it, unlike the categories' own peaks.
  std::size_t at_peak(category c) const { return at_peak_[static_cast<std::size_t>(c)]; }
  /// Resets the peaks to the live bytes.
  void reset_peak() {
    all_.peak = all_.live;
    for (counts& c : by_category_) c.peak = c.live;
    note_peak();
  }

 private:
  static void add(counts& c, std::size_t bytes) {
    c.live += bytes;
    c.total += bytes;
    ++c.allocations;
    if (c.live > c.peak) c.peak = c.live;
  }
  void note_peak() {
    for (std::size_t i = 0; i < category_count; ++i) at_peak_[i] = by_category_[i].live;
  }
  void* do_allocate(const memory_request& request, Stream& on) override {
    void* memory = this->from().allocate(request, on);
    const std::size_t before = all_.peak;
    add(all_, request.bytes);
    add(by_category_[static_cast<std::size_t>(request.what)], request.bytes);
    if (all_.peak > before) note_peak();
    return memory;
  }
  void do_deallocate(void* memory, const memory_request& request, Stream& on) noexcept override {
    detail::take_off(by_category_[static_cast<std::size_t>(request.what)].live, "stats_resource", memory, request);
    all_.live -= request.bytes;
    this->from().deallocate(memory, request, on);
  }

  counts all_;
  std::array<counts, category_count> by_category_{};
  std::array<std::size_t, category_count> at_peak_{};
};

using stats_resource = basic_stats_resource<stream>;  ///< on the CPU

}  // namespace gradus
