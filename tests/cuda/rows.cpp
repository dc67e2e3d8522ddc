#include "../ops/rows.hpp"
#include "on_cpu.hpp"

std::vector<record> rows_on_cpu(unsigned seed) {
  return on_cpu(seed, [](auto& r) { gradus_test::rows_table(r); });
}
