#include "on_cpu.hpp"
#include "training_cases.hpp"

std::vector<record> training_on_cpu(unsigned seed) {
  return on_cpu(seed, [](auto& r) { training_cases(r); });
}
