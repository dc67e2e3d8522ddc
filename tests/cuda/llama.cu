#include "device.hpp"
#include "llama_cases.hpp"

TEST_CASE("a Llama on the GPU trains as on the CPU, with shared keys, rotary positions and a head of its own") {
  if (no_gpu()) return;
  agree(&llama_on_cpu, [](auto& r) { llama_cases(r); });
}
