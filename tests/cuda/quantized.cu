#include "device.hpp"
#include "quantized_cases.hpp"

TEST_CASE("weights in 8 bits have the CPU's bits on the GPU, and their products its values and gradients") {
  if (no_gpu()) return;
  agree(&quantized_on_cpu, [](auto& r) { quantized_cases(r); });
}
