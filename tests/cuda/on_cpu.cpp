#include <gradus/gradus.hpp>
#include <gradus/ops/cross_entropy/cpu.hpp>

#include "elementwise_cases.hpp"
#include "matmul_cases.hpp"
#include "training_cases.hpp"

namespace {
template <class F>
std::vector<record> on_cpu(unsigned seed, const F& cases) {
  gr::stream stream;
  gr::host_resource heap;
  gr::context ctx{stream, heap};
  runner<gr::cpu> r(ctx, seed);
  cases(r);
  return std::move(r.records);
}
}  // namespace

std::vector<record> elementwise_on_cpu(unsigned seed) {
  return on_cpu(seed, [](auto& r) { elementwise_cases(r); });
}
std::vector<record> matmul_on_cpu(unsigned seed) {
  return on_cpu(seed, [](auto& r) { matmul_cases(r); });
}
std::vector<record> cross_entropy_on_cpu(unsigned seed) {
  return on_cpu(seed, [](auto& r) { cross_entropy_cases(r); });
}
std::vector<record> training_on_cpu(unsigned seed) {
  return on_cpu(seed, [](auto& r) { training_cases(r); });
}
