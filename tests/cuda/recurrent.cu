#include "device.hpp"
#include "recurrent_cases.hpp"

TEST_CASE("lstm and gru on the GPU have the CPU's values and gradients") {
  if (no_gpu()) return;
  agree(&recurrent_on_cpu, [](auto& r) { recurrent_cases(r); });
}

TEST_CASE("layers of lstm with products in bf16 have the CPU's values and gradients") {
  if (no_gpu()) return;
  agree(&recurrent_layers_on_cpu, [](auto& r) { recurrent_layers_cases(r); });
}
