#include "device.hpp"
#include "gpt_cases.hpp"

TEST_CASE("a GPT on the GPU trains as on the CPU, with dropout, accumulation, clipping and a scaled loss") {
  if (no_gpu()) return;
  agree(&gpt_on_cpu, [](auto& r) { gpt_cases(r); });
}
