#include "layout_cases.hpp"
#include "on_cpu.hpp"

std::vector<record> layout_on_cpu(unsigned seed) {
  return on_cpu(seed, [](auto& r) { layout_cases(r); });
}
