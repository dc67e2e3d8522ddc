#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "../core/device.hpp"
#include "diagnostics.hpp"
#include "resource.hpp"

namespace gradus {

/// One allocation of a planned step: what is asked for, and where in the workspace it lies.
struct planned_allocation {
  std::size_t bytes = 0;  ///< never 0: requests for nothing do not reach a resource
  category what = category::temporary;
  std::string_view source;  ///< name of the operation that asks; static storage
  std::size_t offset = 0;   ///< from the start of the workspace, a multiple of the plan's alignment
};

/// Allocation number `allocation` is asked for, or ends.
struct planned_event {
  std::size_t allocation = 0;
  bool begins = false;
};

/// All that a steady step does to memory, in order, and where each block lies in one workspace. planned_resource
/// replays it.
struct memory_plan {
  std::vector<planned_allocation> allocations;  ///< in the order of the requests
  std::vector<planned_event> events;            ///< each allocation begins once and ends once, later
  std::size_t bytes = 0;                        ///< of the workspace
  std::size_t alignment = cpu::alignment;       ///< of blocks; what the device wants that the step is for
};

/// What a message says of a request: "8192 bytes (activation of linear)".
inline std::string describe_request(std::size_t bytes, category what, std::string_view source) {
  return std::to_string(bytes) + " bytes (" + purpose_text(what, source) + ")";
}

}  // namespace gradus
