#include "conv_cases.hpp"
#include "device.hpp"

TEST_CASE("convolutions on the GPU have the CPU's values and gradients, with every option") {
  if (no_gpu()) return;
  agree(&conv_on_cpu, [](auto& r) { conv_cases(r); });
}
