#include "conv_cases.hpp"
#include "on_cpu.hpp"

std::vector<record> conv_on_cpu(unsigned seed) {
  return on_cpu(seed, [](auto& r) { conv_cases(r); });
}
