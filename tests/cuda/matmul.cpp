#include "matmul_cases.hpp"
#include "on_cpu.hpp"

std::vector<record> matmul_on_cpu(unsigned seed) {
  return on_cpu(seed, [](auto& r) { matmul_cases(r); });
}
