#include "device.hpp"
#include "rows_cases.hpp"

TEST_CASE(
    "softmax and norms on the GPU have the CPU's values and gradients, rows of a warp, of a block and longer ones") {
  if (no_gpu()) return;
  agree(&rows_on_cpu, [](auto& r) { rows_cases(r); });
}
