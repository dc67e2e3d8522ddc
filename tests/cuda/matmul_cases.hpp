#pragma once
#include <gradus/ops/einsum/einsum.hpp>
#include <gradus/ops/matmul/matmul.hpp>

#include "cases.hpp"

template <class D>
void matmul_cases(runner<D>& r) {
  const auto plain = [](auto a, auto b) { return gr::matmul(a, b); };
  const auto transposed_b = [](auto a, auto b) { return gr::matmul<gr::transpose{.b = true}>(a, b); };
  const auto transposed_a = [](auto a, auto b) { return gr::matmul<gr::transpose{.a = true}>(a, b); };
  const auto transposed_both = [](auto a, auto b) { return gr::matmul<gr::transpose{.a = true, .b = true}>(a, b); };
  r.template differentiate<float, gr::shape<33, 17>, gr::shape<17, 5>>("a b", plain);
  r.template differentiate<float, gr::shape<33, 17>, gr::shape<5, 17>>("a b^T", transposed_b);
  r.template differentiate<float, gr::shape<17, 33>, gr::shape<17, 5>>("a^T b", transposed_a);
  r.template differentiate<float, gr::shape<17, 33>, gr::shape<5, 17>>("a^T b^T", transposed_both);
  r.template differentiate<float, gr::shape<1, 1>, gr::shape<1, 1>>("one element", plain);
  r.template differentiate<float, gr::shape<3, 8, 16>, gr::shape<3, 16, 4>>("a batch", plain);
  r.template differentiate<float, gr::shape<3, 8, 16>, gr::shape<16, 4>>("a batch and one matrix", plain);
  r.template differentiate<float, gr::shape<3, 16, 8>, gr::shape<16, 4>>("a batch, transposed, and one matrix",
                                                                         transposed_a);
  r.template differentiate<gr::bf16, gr::shape<3, 16, 8>, gr::shape<16, 4>>(
      "a batch of bf16, transposed, and one matrix", transposed_a);
  r.template differentiate<float, gr::shape<3, 5, 7>, gr::shape<3, 3, 7>>("a batch of a b^T", transposed_b);
  r.template differentiate<float, gr::shape<128, 256>, gr::shape<256, 64>>("whole tiles", plain);
  r.template differentiate<double, gr::shape<33, 17>, gr::shape<17, 5>>("double", plain);
  r.template differentiate<float, gr::shape<9, 6>, gr::shape<6, 6>>(
      "gradients that accumulate", [](auto a, auto b) { return gr::matmul(gr::matmul(a, b), b); });

  const auto linear = [](auto x, auto w, auto b) { return gr::linear(x, w, b); };
  r.template differentiate<float, gr::shape<64, 32>, gr::shape<32, 48>, gr::shape<48>>("linear", linear);
  r.template differentiate<float, gr::shape<7, 3>, gr::shape<3, 5>, gr::shape<5>>("linear, odd", linear);
  r.template differentiate<float, gr::shape<2, 9, 3>, gr::shape<3, 1>, gr::shape<1>>("linear, one column", linear);
  r.template differentiate<double, gr::shape<7, 3>, gr::shape<3, 5>, gr::shape<5>>("linear, double", linear);
  r.template differentiate<gr::bf16, gr::shape<67, 24>, gr::shape<24, 40>, gr::shape<40>>("linear, bf16", linear);
  // The gradients of the second add to those of the first.
  r.template differentiate<float, gr::shape<9, 32>, gr::shape<32, 32>, gr::shape<32>>(
      "linear twice", [](auto x, auto w, auto b) { return gr::linear(gr::linear(x, w, b), w, b); });

  r.template differentiate<float, gr::shape<2, 3, 4>, gr::shape<4, 5, 2>>(
      "einsum", [](auto a, auto b) { return gr::einsum<"bij,jkb->kbi">(a, b); });
  r.template differentiate<gr::bf16, gr::shape<2, 3, 4>, gr::shape<4, 5, 2>>(
      "einsum of bf16", [](auto a, auto b) { return gr::einsum<"bij,jkc->cik">(a, b); });
}

// Computed in the .cpp file.
std::vector<record> matmul_on_cpu(unsigned seed);
