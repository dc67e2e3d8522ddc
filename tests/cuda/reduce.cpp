#include "on_cpu.hpp"
#include "reduce_cases.hpp"

std::vector<record> reduce_on_cpu(unsigned seed) {
  return on_cpu(seed, [](auto& r) { reduce_cases(r); });
}
