#include "device.hpp"
#include "layout_cases.hpp"

TEST_CASE("permutations, slices, embeddings, casts and dropout on the GPU are the CPU's, masks bit for bit") {
  if (no_gpu()) return;
  agree(&layout_on_cpu, [](auto& r) { layout_cases(r); });
}
