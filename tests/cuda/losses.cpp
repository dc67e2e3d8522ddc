#include "losses_cases.hpp"
#include "on_cpu.hpp"

std::vector<record> losses_on_cpu(unsigned seed) {
  return on_cpu(seed, [](auto& r) { losses_cases(r); });
}
