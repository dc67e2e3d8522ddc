#include "images_cases.hpp"
#include "on_cpu.hpp"

std::vector<record> images_on_cpu(unsigned seed) {
  return on_cpu(seed, [](auto& r) { images_cases(r); });
}
