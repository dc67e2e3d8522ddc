#include "bert_cases.hpp"

#include "on_cpu.hpp"

std::vector<record> bert_on_cpu(unsigned seed) {
  return on_cpu(seed, [](auto& r) { bert_cases(r); });
}
