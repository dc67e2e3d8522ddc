#include "../ops/rows.hpp"
#include "device.hpp"

// Computed in the .cpp file.
std::vector<record> rows_on_cpu(unsigned seed);

TEST_CASE(
    "softmax and norms on the GPU have the CPU's values and gradients, rows of a warp, of a block and longer ones") {
  if (no_gpu()) return;
  agree(&rows_on_cpu, [](auto& r) { gradus_test::rows_table(r); });
}
