#include "device.hpp"
#include "elementwise_cases.hpp"

TEST_CASE("maps, broadcasts and sums on the GPU give the CPU's values and gradients, the same each time") {
  if (no_gpu()) return;
  agree(&elementwise_on_cpu, [](auto& r) { elementwise_cases(r); });
}
