#include "device.hpp"
#include "matmul_cases.hpp"

TEST_CASE("matrix products on the GPU have the CPU's values and gradients, transposed or not, batched or not") {
  if (no_gpu()) return;
  agree(&matmul_on_cpu, [](auto& r) { matmul_cases(r); });
}
