#include "on_cpu.hpp"
#include "wide_heads_cases.hpp"

std::vector<record> wide_heads_on_cpu(unsigned seed) {
  return on_cpu(seed, [](auto& r) { wide_heads_cases(r); });
}
