#pragma once
#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

#include "../meta/trace.hpp"

namespace gradus {

/// When the events and operations of a trace happen, in microseconds: as measured; else between the predicted times of the
/// operations; else one microsecond an event, so that time is the position in the sequence.
struct trace_times {
  enum class source { sequence, predicted, measured };

  source from = source::sequence;
  std::vector<double> event;  ///< never falls
  std::vector<double> op_begin;
  std::vector<double> op_end;
  double end = 0;  ///< of all

  explicit trace_times(const step_trace& trace) {
    const auto timed = [](const op_span& op) { return op.end_us > 0; };
    if (trace.event_us.size() == trace.events.size() && !trace.event_us.empty()) from = source::measured;
    else if (std::any_of(trace.ops.begin(), trace.ops.end(), timed)) from = source::predicted;
    for (const op_span& op : trace.ops) {
      op_begin.push_back(from == source::sequence ? static_cast<double>(op.first_event) : op.begin_us);
      op_end.push_back(from == source::sequence ? static_cast<double>(op.last_event) : op.end_us);
      end = std::max(end, op_end.back());
    }
    if (from == source::measured) event = trace.event_us;
    else if (from == source::predicted) spread(trace);
    else
      for (std::size_t e = 0; e < trace.events.size(); ++e) event.push_back(static_cast<double>(e));
    if (from == source::sequence) end = static_cast<double>(trace.events.size());
    else if (!event.empty()) end = std::max(end, event.back());
  }

 private:
  // Events lie evenly between the last beginning or end of an operation before them and the first one after them.
  void spread(const step_trace& trace) {
    const std::size_t n = trace.events.size();
    std::vector<double> low(n + 1, 0), high(n + 1, end);
    const auto bound = [&](std::size_t position, double us) {
      low[position] = std::max(low[position], us);
      if (position > 0) high[position - 1] = std::min(high[position - 1], us);
    };
    for (const op_span& op : trace.ops) {
      bound(op.first_event, op.begin_us);
      bound(op.last_event, op.end_us);
    }
    for (std::size_t e = 1; e < n; ++e) low[e] = std::max(low[e], low[e - 1]);
    for (std::size_t e = n; e-- > 0;) high[e] = std::min(high[e], high[e + 1]);
    event.resize(n);
    for (std::size_t first = 0, last; first < n; first = last) {
      for (last = first; last < n && low[last] == low[first] && high[last] == high[first];) ++last;
      const double step = (std::max(high[first], low[first]) - low[first]) / static_cast<double>(last - first + 1);
      for (std::size_t e = first; e < last; ++e) event[e] = low[first] + step * static_cast<double>(e - first + 1);
    }
    for (std::size_t e = 1; e < n; ++e) event[e] = std::max(event[e], event[e - 1]);
  }
};

}  // namespace gradus
