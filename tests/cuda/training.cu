#include "device.hpp"
#include "training_cases.hpp"

TEST_CASE("five optimizer steps of a network on the GPU follow the CPU's, and come out the same each time") {
  if (no_gpu()) return;
  agree(&training_on_cpu, [](auto& r) { training_cases(r); });
}
