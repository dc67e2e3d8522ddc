#pragma once
#include <algorithm>
#include <cstddef>

#include "trace_times.hpp"

namespace gradus {

GRADUS_IMPL trace_times::trace_times(const step_trace& trace)
    : measured(!trace.event_us.empty() && trace.event_us.size() == trace.events.size()) {
  for (const op_span& op : trace.ops) {
    op_begin.push_back(measured ? op.begin_us : static_cast<double>(op.first_event));
    op_end.push_back(measured ? op.end_us : static_cast<double>(op.last_event));
    end = std::max(end, op_end.back());
  }
  if (measured) {
    event.assign(trace.event_us.begin(), trace.event_us.end());
    end = std::max(end, event.back());
  } else {
    for (std::size_t e = 0; e < trace.events.size(); ++e) event.push_back(static_cast<double>(e));
    end = static_cast<double>(trace.events.size());
  }
}

}  // namespace gradus
