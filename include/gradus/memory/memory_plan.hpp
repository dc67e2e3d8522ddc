#pragma once
// A plan of the memory of one step, which planned_resource replays.

#include <cstddef>
#include <string>
#include <string_view>

#include "../core/device.hpp"
#include "../core/vector.hpp"
#include "diagnostics.hpp"
#include "resource.hpp"

namespace gradus {

/// One allocation of a planned step: its request, and its offset in the workspace.
struct planned_allocation {
  std::size_t bytes = 0;  ///< never 0: requests of 0 bytes do not reach a resource
  category what = category::temporary;
  std::string_view source;  ///< name of the requesting operation; static storage
  std::size_t offset = 0;   ///< from the start of the workspace, a multiple of the plan's alignment
};

/// Allocation number `allocation` begins or ends.
struct planned_event {
  std::size_t allocation = 0;
  bool begins = false;
};

/// All allocations of a steady step, in order, and the place of each in one workspace.
struct memory_plan {
  detail::vector<planned_allocation> allocations;  ///< in the order of the requests
  detail::vector<planned_event> events;            ///< each allocation begins once and then ends once
  std::size_t bytes = 0;                           ///< of the workspace
  std::size_t alignment = cpu::alignment;          ///< of blocks, for the device of the step
};

/// A request in a message: "8192 bytes (activation of linear)".
inline std::string describe_request(std::size_t bytes, category what, std::string_view source) {
  return std::to_string(bytes) + " bytes (" + purpose_text(what, source) + ")";
}

}  // namespace gradus
