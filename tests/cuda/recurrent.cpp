#include "on_cpu.hpp"
#include "recurrent_cases.hpp"

std::vector<record> recurrent_on_cpu(unsigned seed) {
  return on_cpu(seed, [](auto& r) { recurrent_cases(r); });
}
std::vector<record> recurrent_layers_on_cpu(unsigned seed) {
  return on_cpu(seed, [](auto& r) { recurrent_layers_cases(r); });
}
