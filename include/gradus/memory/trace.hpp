#pragma once
// The memory requests and operations of one step, as data.

#include <cstddef>
#include <string_view>

#include "../core/device.hpp"
#include "../core/vector.hpp"
#include "resource.hpp"

namespace gradus {

/// One block of memory in a step. `from` and `until` are positions in the sequence of all events.
struct block_life {
  std::size_t bytes = 0;
  category what = category::temporary;
  std::string_view source = {};  ///< name of the requesting operation; empty outside of operations
  gradus::phase phase = gradus::phase::outside;
  std::size_t from = 0;            ///< position of the request
  std::size_t until = 0;           ///< position of the end; past the last event if the block outlives the step
  std::size_t op = 0;              ///< index of the requesting operation in step_trace::ops; ops.size() if none
  std::string_view saved_by = {};  ///< name of the operation that first saved it for backward; empty if none
};

/// One event of a step: block `block` begins or ends.
struct memory_event {
  std::size_t block = 0;
  bool begins = false;
};

/// One operation, with its events [first_event, last_event). Operations nest.
struct op_span {
  activity what;
  std::size_t first_event = 0;
  std::size_t last_event = 0;
  std::size_t depth = 0;  ///< number of enclosing operations
  double begin_us = 0;    ///< measured since the start of the step; 0 on meta
  double end_us = 0;
};

/// The memory events of a step, in order, and its operations.
struct step_trace {
  detail::vector<block_life> blocks;    ///< in the order of their requests
  detail::vector<memory_event> events;  ///< all requests and ends
  detail::vector<double> event_us;      ///< measured times of the events; empty on meta
  detail::vector<op_span> ops;          ///< in the order of their beginnings
  std::size_t live_before = 0;          ///< persistent bytes (parameters, optimizer state), which are not in `blocks`
  std::size_t live_before_by[category_count] = {};  ///< the same by category
  std::size_t alignment = cpu::alignment;           ///< of blocks on the step's device
};

}  // namespace gradus
