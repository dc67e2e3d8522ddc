#pragma once
#include <array>
#include <cstddef>

#include "resource.hpp"

namespace gradus {

/// Counts what passes through to another resource: live and peak bytes, in all and by category.
class stats_resource final : public memory_resource {
 public:
  explicit stats_resource(memory_resource& from) : from_(&from) {}

  struct counts {
    std::size_t live = 0;         ///< bytes now
    std::size_t peak = 0;         ///< most bytes at once
    std::size_t total = 0;        ///< bytes ever asked for
    std::size_t allocations = 0;  ///< requests served
  };
  const counts& all() const { return all_; }
  const counts& of(category c) const { return by_category_[static_cast<std::size_t>(c)]; }
  /// Starts the peaks again from what is live now.
  void reset_peak() {
    all_.peak = all_.live;
    for (counts& c : by_category_) c.peak = c.live;
  }

 private:
  static void add(counts& c, std::size_t bytes) {
    c.live += bytes;
    c.total += bytes;
    ++c.allocations;
    if (c.live > c.peak) c.peak = c.live;
  }
  void* do_allocate(const memory_request& request, stream& on) override {
    void* memory = from_->allocate(request, on);
    add(all_, request.bytes);
    add(by_category_[static_cast<std::size_t>(request.what)], request.bytes);
    return memory;
  }
  void do_deallocate(void* memory, const memory_request& request, stream& on) noexcept override {
    all_.live -= request.bytes;
    by_category_[static_cast<std::size_t>(request.what)].live -= request.bytes;
    from_->deallocate(memory, request, on);
  }

  memory_resource* from_;
  counts all_;
  std::array<counts, category_count> by_category_{};
};

}  // namespace gradus
