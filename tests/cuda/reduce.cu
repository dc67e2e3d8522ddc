#include "device.hpp"
#include "reduce_cases.hpp"

TEST_CASE("sums of any axes, extremes and variances on the GPU are the CPU's") {
  if (no_gpu()) return;
  agree(&reduce_on_cpu, [](auto& r) { reduce_cases(r); });
}
