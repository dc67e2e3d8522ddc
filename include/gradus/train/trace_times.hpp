#pragma once
#include <vector>

#include "../core/config.hpp"
#include "../memory/trace.hpp"

namespace gradus {

/// When the events and operations of a trace happen, in microseconds: as measured; else one microsecond an event, so
/// that time is the position in the sequence.
struct trace_times {
  bool measured = false;
  std::vector<double> event;  ///< never falls
  std::vector<double> op_begin;
  std::vector<double> op_end;
  double end = 0;  ///< of all

  explicit trace_times(const step_trace& trace);
};

}  // namespace gradus

#ifndef GRADUS_COMPILED
#include "trace_times.ipp"
#endif
