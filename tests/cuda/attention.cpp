#include "attention_cases.hpp"
#include "on_cpu.hpp"

std::vector<record> attention_on_cpu(unsigned seed) {
  return on_cpu(seed, [](auto& r) { attention_cases(r); });
}
