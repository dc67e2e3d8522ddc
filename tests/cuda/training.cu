#include "device.hpp"
#include "training_cases.hpp"

TEST_CASE("cross-entropy on the GPU has the CPU's value and gradient, over its logits or beside them") {
  if (no_gpu()) return;
  agree(&cross_entropy_on_cpu, [](auto& r) { cross_entropy_cases(r); });
}

TEST_CASE("five optimizer steps of a network on the GPU follow the CPU's, and come out the same each time") {
  if (no_gpu()) return;
  agree(&training_on_cpu, [](auto& r) { training_cases(r); });
}
