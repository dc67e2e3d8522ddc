#pragma once
#include <gradus/ops/attention/attention.hpp>

#include "cases.hpp"

template <class D>
void attention_cases(runner<D>& r) {
  const auto causal = [](auto heads) {
    return [heads](auto x) { return gr::causal_attention<decltype(heads)::value>(x); };
  };
  constexpr std::integral_constant<gr::index, 1> one;
  constexpr std::integral_constant<gr::index, 2> two;
  constexpr std::integral_constant<gr::index, 3> three;
  r.template differentiate<float, gr::shape<1, 1, 12>>("one time", causal(one));
  r.template differentiate<float, gr::shape<2, 32, 144>>("three heads of 16", causal(three));
  r.template differentiate<float, gr::shape<1, 131, 30>>("odd", causal(two));
  r.template differentiate<float, gr::shape<1, 70, 192>>("a head of 64", causal(one));
  r.template differentiate<double, gr::shape<1, 65, 18>>("double", causal(two));
  r.template differentiate<gr::bf16, gr::shape<2, 67, 96>>("bf16", causal(two));
  r.template differentiate<gr::f16, gr::shape<1, 40, 120>>("f16", causal(two));
  r.template differentiate<gr::bf16, gr::shape<1, 200, 192>>("bf16, a head of 64", causal(one));
  r.template differentiate<gr::f16, gr::shape<1, 129, 312>>("f16, a head of 104", causal(one));
  r.template differentiate<gr::bf16, gr::shape<1, 33, 30>>("bf16, odd", causal(two));
  const auto plain = [](auto q, auto k, auto v) { return gr::attention(q, k, v); };
  r.template differentiate<float, gr::shape<2, 2, 9, 8>, gr::shape<2, 2, 75, 8>, gr::shape<2, 2, 75, 8>>("all keys",
                                                                                                         plain);
  r.template differentiate<gr::bf16, gr::shape<1, 2, 66, 16>, gr::shape<1, 2, 33, 16>, gr::shape<1, 2, 33, 16>>(
      "all keys, bf16", plain);
  r.template differentiate<float, gr::shape<1, 2, 40, 12>, gr::shape<1, 2, 40, 12>>(
      "keys are values", [](auto q, auto k) { return gr::attention<true>(q, k, k); });
}

// Computed in the .cpp file.
std::vector<record> attention_on_cpu(unsigned seed);
