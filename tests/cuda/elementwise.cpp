#include "elementwise_cases.hpp"
#include "on_cpu.hpp"

std::vector<record> elementwise_on_cpu(unsigned seed) {
  return on_cpu(seed, [](auto& r) { elementwise_cases(r); });
}
