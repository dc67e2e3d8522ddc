#include "mixture_cases.hpp"
#include "on_cpu.hpp"

std::vector<record> mixture_on_cpu(unsigned seed) {
  return on_cpu(seed, [](auto& r) { mixture_cases(r); });
}
