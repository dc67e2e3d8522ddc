#include "attention_cases.hpp"
#include "device.hpp"

TEST_CASE("attention on the GPU has the CPU's values and gradients") {
  if (no_gpu()) return;
  agree(&attention_on_cpu, [](auto& r) { attention_cases(r); });
}
