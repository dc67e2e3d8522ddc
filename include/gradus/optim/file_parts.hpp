#pragma once
// Updates of parameters and states in a file.

#include <algorithm>
#include <cstdint>
#include <span>

#include "../memory/file_resource.hpp"
#include "update_parts.hpp"

namespace gradus {

/// The parts of parameters and states in a file_resource: the pages of a part are read while the one before it is
/// computed, and dropped from resident memory after it. So two parts are resident at most.
class file_parts final : public update_parts {
 public:
  explicit file_parts(file_resource& file, index_t values = index_t{1} << 20) : update_parts(values), file_(&file) {}
  void begin(std::span<const memory_range> used) override {
    for (const memory_range& r : used) reads_ = std::max(reads_, file_->read_ahead(r.begin, r.bytes));
  }
  void end(std::span<const memory_range> used) override {
    file_->finish(reads_);
    for (const memory_range& r : used) file_->drop(r.begin, r.bytes);
  }

 private:
  file_resource* file_;
  std::uint64_t reads_ = 0;  // number of the last
};

}  // namespace gradus
