#include "on_cpu.hpp"
#include "quantized_cases.hpp"

std::vector<record> quantized_on_cpu(unsigned seed) {
  return on_cpu(seed, [](auto& r) { quantized_cases(r); });
}
