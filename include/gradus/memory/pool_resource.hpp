#pragma once
#include <cstddef>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "resource.hpp"

namespace gradus {

/// Keeps memory for reuse instead of returning it: best fit over free ranges, which split when taken and merge with their
/// neighbours when given back. Memory comes from another resource in segments and returns to it when the pool ends. Training
/// steps ask for the same sizes again and again; with a pool, the operating system sees only the first step.
class pool_resource final : public memory_resource {
 public:
  explicit pool_resource(memory_resource& from, std::size_t segment_bytes = std::size_t{32} << 20)
      : from_(&from), segment_bytes_(segment_bytes) {}
  ~pool_resource() override {
    for (const segment& s : segments_) from_->deallocate(s.data, s.request, origin_);
  }

  std::size_t live_bytes() const { return live_; }          ///< handed out now
  std::size_t reserved_bytes() const { return reserved_; }  ///< held from the resource below

 private:
  struct segment {
    std::byte* data;
    memory_request request;
  };
  struct range {
    std::size_t bytes;
    std::size_t segment;
  };

  static std::size_t rounded(std::size_t bytes) {
    return (bytes + memory_request::alignment - 1) / memory_request::alignment * memory_request::alignment;
  }

  void* do_allocate(const memory_request& request, stream& on) override {
    const std::size_t bytes = rounded(request.bytes);
    auto fit = by_size_.lower_bound({bytes, nullptr});
    if (fit == by_size_.end()) {
      grow(bytes, on);
      fit = by_size_.lower_bound({bytes, nullptr});
    }
    std::byte* at = fit->second;
    const range whole = free_.at(at);
    erase_free(at);
    if (whole.bytes > bytes) insert_free(at + bytes, {whole.bytes - bytes, whole.segment});
    used_.emplace(at, range{bytes, whole.segment});
    live_ += bytes;
    return at;
  }

  void do_deallocate(void* memory, const memory_request&, stream&) noexcept override {
    auto* at = static_cast<std::byte*>(memory);
    const auto taken = used_.find(at);
    range r = taken->second;
    used_.erase(taken);
    live_ -= r.bytes;
    auto next = free_.lower_bound(at);
    if (next != free_.end() && next->first == at + r.bytes && next->second.segment == r.segment) {
      r.bytes += next->second.bytes;
      erase_free(next->first);
      next = free_.lower_bound(at);
    }
    if (next != free_.begin()) {
      const auto before = std::prev(next);
      if (before->first + before->second.bytes == at && before->second.segment == r.segment) {
        at = before->first;
        r.bytes += before->second.bytes;
        erase_free(at);
      }
    }
    insert_free(at, r);
  }

  void grow(std::size_t bytes, stream& on) {
    memory_request request;
    request.bytes = bytes > segment_bytes_ ? bytes : segment_bytes_;
    auto* data = static_cast<std::byte*>(from_->allocate(request, on));
    segments_.push_back({data, request});
    reserved_ += request.bytes;
    insert_free(data, {request.bytes, segments_.size() - 1});
  }
  void insert_free(std::byte* at, range r) {
    free_.emplace(at, r);
    by_size_.emplace(r.bytes, at);
  }
  void erase_free(std::byte* at) {
    const auto it = free_.find(at);
    by_size_.erase({it->second.bytes, at});
    free_.erase(it);
  }

  memory_resource* from_;
  std::size_t segment_bytes_;
  stream origin_;
  std::vector<segment> segments_;
  std::map<std::byte*, range> free_;
  std::map<std::byte*, range> used_;
  std::set<std::pair<std::size_t, std::byte*>> by_size_;
  std::size_t live_ = 0;
  std::size_t reserved_ = 0;
};

}  // namespace gradus
