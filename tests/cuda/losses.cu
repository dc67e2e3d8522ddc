#include "device.hpp"
#include "losses_cases.hpp"

TEST_CASE(
    "cross-entropy on the GPU has the CPU's value and gradient, over its logits or beside them, whole or in chunks "
    "with the head") {
  if (no_gpu()) return;
  agree(&losses_on_cpu, [](auto& r) { losses_cases(r); });
}
