#pragma once
// Times of the events of a trace.

#include <vector>

#include "../core/config.hpp"
#include "../memory/trace.hpp"

namespace gradus {

/// Times of a trace's events and operations in microseconds: measured, or else one microsecond an event.
struct trace_times {
  bool measured = false;
  std::vector<double> event;  ///< ascending
  std::vector<double> op_begin;
  std::vector<double> op_end;
  double end = 0;  ///< of all

  explicit trace_times(const step_trace& trace);
};

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "trace_times.ipp"
#endif
