#include "gpt_cases.hpp"
#include "on_cpu.hpp"

std::vector<record> gpt_on_cpu(unsigned seed) {
  return on_cpu(seed, [](auto& r) { gpt_cases(r); });
}
