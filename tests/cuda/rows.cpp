#include "on_cpu.hpp"
#include "rows_cases.hpp"

std::vector<record> rows_on_cpu(unsigned seed) {
  return on_cpu(seed, [](auto& r) { rows_cases(r); });
}
