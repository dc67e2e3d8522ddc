#include "tree_sum_cases.hpp"

#include <cstdint>
#include <gradus/memory/host_resource.hpp>
#include <gradus/ranks/cpu/tree_sum.hpp>

template <class Op, class... Args>
static void run(const Args&... args) {
  gr::stream stream;
  gr::host_resource heap;
  gr::context ctx{stream, heap};
  gr::kernel<Op, gr::cpu>::forward(ctx, args...);
}
template <class T>
void sum_on_cpu(T* to, const std::vector<const T*>& parts, gr::index_t n) {
  run<gr::op::tree_sum>(to, parts, n);
}
template <class To, class C, class From>
void merge_on_cpu(To* to, const std::vector<const C*>& before, const From* leaf, gr::index_t n) {
  run<gr::op::merge_leaves>(to, before, leaf, n);
}

template void sum_on_cpu(double*, const std::vector<const double*>&, gr::index_t);
template void sum_on_cpu(float*, const std::vector<const float*>&, gr::index_t);
template void sum_on_cpu(gr::bf16*, const std::vector<const gr::bf16*>&, gr::index_t);
template void sum_on_cpu(gr::f16*, const std::vector<const gr::f16*>&, gr::index_t);
template void sum_on_cpu(std::int64_t*, const std::vector<const std::int64_t*>&, gr::index_t);
template void sum_on_cpu(std::int32_t*, const std::vector<const std::int32_t*>&, gr::index_t);
template void sum_on_cpu(std::uint16_t*, const std::vector<const std::uint16_t*>&, gr::index_t);
template void sum_on_cpu(std::uint8_t*, const std::vector<const std::uint8_t*>&, gr::index_t);
template void merge_on_cpu(double*, const std::vector<const double*>&, const double*, gr::index_t);
template void merge_on_cpu(float*, const std::vector<const float*>&, const float*, gr::index_t);
template void merge_on_cpu(float*, const std::vector<const float*>&, const gr::bf16*, gr::index_t);
template void merge_on_cpu(gr::bf16*, const std::vector<const float*>&, const gr::bf16*, gr::index_t);
template void merge_on_cpu(gr::f16*, const std::vector<const float*>&, const gr::f16*, gr::index_t);
