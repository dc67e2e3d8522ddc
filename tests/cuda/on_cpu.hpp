#pragma once
// Runs the cases on the CPU; for the .cpp files beside the .cu files.
#include <gradus/gradus.hpp>

#include "cases.hpp"

template <class F>
std::vector<record> on_cpu(unsigned seed, const F& cases) {
  gr::stream stream;
  gr::host_resource heap;
  gr::context ctx{stream, heap};
  runner<gr::cpu> r(ctx, seed);
  cases(r);
  return std::move(r.records);
}
