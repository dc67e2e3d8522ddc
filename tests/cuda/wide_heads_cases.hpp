#pragma once
#include <gradus/ops/attention/attention.hpp>

#include <vector>

#include "cases.hpp"

/// Attention on CUDA cores with heads so wide that the largest tiles do not fit in every GPU's shared memory.
template <class D>
void wide_heads_cases(runner<D>& r) {
  constexpr gr::index_t times = 67;
  using X = gr::shape<1, 1, times, 128>;
  using wide = gr::shape<1, times, 256>;
  r.template differentiate<float, X, X, X>("a head of 128",
                                           [](auto q, auto k, auto v) { return gr::attention<true>(q, k, v); });
  r.template differentiate<gr::bf16, wide, wide, wide, gr::shape<1, 1, times, times>>(
      "bf16, a head of 256, a bias",
      [](auto q, auto k, auto v, auto bias) { return gr::attention<1>(q, k, v, bias, {.window = 40}); });
}

// Computed in the .cpp file.
std::vector<record> wide_heads_on_cpu(unsigned seed);
