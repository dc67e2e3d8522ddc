#pragma once
// Finds leaks and wrong frees.

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "diagnostics.hpp"
#include "resource.hpp"

namespace gradus {

/// A live block.
struct tracked_block {
  const void* memory = nullptr;
  memory_request request;
  std::string_view label;  ///< the label() at its allocation
};

/// Records every live block and its request, to name leaks. Ends the program with one line if a block is freed wrongly.
template <class Stream>
class basic_tracking_resource final : public resource_adaptor<Stream> {
 public:
  /// The destructor calls `at_end` with report() if blocks are live; its exceptions are ignored.
  explicit basic_tracking_resource(basic_resource<Stream>& from,
                                   std::function<void(const std::string&)> at_end = nullptr)
      : resource_adaptor<Stream>(from), at_end_(std::move(at_end)) {}
  ~basic_tracking_resource() override {
    if (live_.empty() || !at_end_) return;
    try {
      at_end_(report());
    } catch (...) {  // a destructor cannot throw
    }
  }

  /// Labels later requests with `text`, which must outlive them; see tracked_block.
  void label(std::string_view text) { label_ = text; }

  /// The live blocks in order of allocation.
  std::vector<tracked_block> outstanding() const {
    std::vector<std::pair<std::size_t, tracked_block>> by_time;
    for (const auto& [memory, known] : live_) by_time.emplace_back(known.number, known.block);
    std::sort(by_time.begin(), by_time.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<tracked_block> blocks;
    blocks.reserve(by_time.size());
    for (const auto& timed : by_time) blocks.push_back(timed.second);
    return blocks;
  }
  /// The live blocks as text: their number and bytes, then one line per block.
  std::string report() const {
    const auto blocks = outstanding();
    std::size_t bytes = 0;
    for (const tracked_block& b : blocks) bytes += b.request.bytes;
    std::string text = std::to_string(blocks.size()) + " live blocks, " + bytes_text(bytes) + '\n';
    for (const tracked_block& b : blocks) {
      text += "  " + bytes_text(b.request.bytes) + ", " + purpose_text(b.request) + ", phase ";
      text.append(phase_name(b.request.phase)).append(", request ").append(std::to_string(b.request.id));
      if (!b.label.empty()) text.append(", ").append(b.label);
      text += '\n';
    }
    return text;
  }

 private:
  struct entry {
    std::size_t number = 0;
    tracked_block block;
  };
  using table = std::map<const void*, entry>;

  void* do_allocate(const memory_request& request, Stream& on) override {
    table fresh;  // created first: after the allocation nothing may fail
    auto node = fresh.extract(fresh.try_emplace(nullptr).first);
    void* memory = this->from().allocate(request, on);
    node.key() = memory;
    node.mapped() = {next_++, {memory, request, label_}};
    live_.insert(std::move(node));
    return memory;
  }
  void do_deallocate(void* memory, const memory_request& request, Stream& on) noexcept override {
    const auto found = live_.find(memory);
    if (found == live_.end())
      memory_misuse("tracking_resource", "is not live: it was freed twice, or belongs to another resource", memory,
                    request);
    if (found->second.block.request.bytes != request.bytes)
      memory_misuse("tracking_resource", "was allocated with another size", memory, request);
    live_.erase(found);
    this->from().deallocate(memory, request, on);
  }

  table live_;
  std::size_t next_ = 0;
  std::string_view label_;
  std::function<void(const std::string&)> at_end_;
};

using tracking_resource = basic_tracking_resource<stream>;  ///< on the CPU

}  // namespace gradus
