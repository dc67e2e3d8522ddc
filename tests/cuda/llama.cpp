#include "llama_cases.hpp"
#include "on_cpu.hpp"

std::vector<record> llama_on_cpu(unsigned seed) {
  return on_cpu(seed, [](auto& r) { llama_cases(r); });
}
