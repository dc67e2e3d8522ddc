#include "device.hpp"
#include "images_cases.hpp"

TEST_CASE("pooling and norms over channels on the GPU have the CPU's values, gradients and running states") {
  if (no_gpu()) return;
  agree(&images_on_cpu, [](auto& r) { images_cases(r); });
}
