#include "muon_cases.hpp"
#include "on_cpu.hpp"

std::vector<record> muon_on_cpu(unsigned seed) {
  return on_cpu(seed, [](auto& r) { muon_cases(r); });
}
