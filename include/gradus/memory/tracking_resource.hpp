#pragma once
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

/// A block that has not been given back.
struct tracked_block {
  const void* memory = nullptr;
  memory_request request;
  std::string_view label;  ///< what tracking_resource::label said when it was asked for
};

/// Remembers every live block and where it came from, so that a leak can be named. Giving back what is not live (a
/// second time, or to the wrong resource) ends the program with one line on stderr.
template <class Stream>
class basic_tracking_resource final : public resource_adaptor<Stream> {
 public:
  /// At its end, if some block is live, `at_end` is called with report(); what it throws is dropped.
  explicit basic_tracking_resource(basic_resource<Stream>& from,
                                   std::function<void(const std::string&)> at_end = nullptr)
      : resource_adaptor<Stream>(from), at_end_(std::move(at_end)) {}
  ~basic_tracking_resource() override {
    if (live_.empty() || !at_end_) return;
    try {
      at_end_(report());
    } catch (...) {  // a destructor has nobody to tell
    }
  }

  /// Marks later requests with a word of the user's, which has to stay where it is; see tracked_block.
  void label(std::string_view text) { label_ = text; }

  /// The live blocks, the first asked for first.
  std::vector<tracked_block> outstanding() const {
    std::vector<std::pair<std::size_t, tracked_block>> by_time;
    for (const auto& [memory, known] : live_) by_time.emplace_back(known.number, known.block);
    std::sort(by_time.begin(), by_time.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<tracked_block> blocks;
    blocks.reserve(by_time.size());
    for (const auto& timed : by_time) blocks.push_back(timed.second);
    return blocks;
  }
  /// Those in words: a line with their number and bytes, then a line for each.
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
    table fresh;  // made first: once there is memory, nothing may fail
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
      memory_misuse("tracking_resource", "is not live here: it was given back twice, or comes from elsewhere", memory,
                    request);
    if (found->second.block.request.bytes != request.bytes)
      memory_misuse("tracking_resource", "was asked for with another size", memory, request);
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
