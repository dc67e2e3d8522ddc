#pragma once
#include <gradus/nn/key_value_cache.hpp>
#include <gradus/ops/attention/attention.hpp>

#include <algorithm>
#include <string>
#include <vector>

#include "cases.hpp"

/// Rows of a text that comes in parts, the last of them padded: all at once, and then with a past.
template <class P, gr::index_t Batch, gr::index_t Heads, gr::index_t Depth, class D>
void cached_attention_case(runner<D>& r, const std::string& name, double tolerance) {
  using T = typename P::compute;
  constexpr gr::index_t times = 43, width = 3 * Heads * Depth;
  auto& ctx = r.ctx();
  const auto values = r.template random<T>(Batch * times * width);
  gr::nn::key_value_cache<gr::on<D, P>, 1, Batch, Heads, times, Depth> past(ctx);
  const auto take = [&](auto most, gr::index_t count) {
    constexpr gr::index_t rows = decltype(most)::value;
    std::vector<T> part(Batch * rows * width, T(7.0f));  // what comes behind `count` times is not looked at
    for (gr::index_t b = 0; b < Batch; ++b)
      std::copy_n(values.data() + (b * times + past.position()) * width, count * width, part.data() + b * rows * width);
    const auto x = gr::from_host<T, gr::shape<Batch, rows, width>>(ctx, part.data());
    r.keep(name + ", " + std::to_string(count) + " behind " + std::to_string(past.position()),
           gr::to_host(gr::cast<float>(gr::causal_attention<Heads>(x, past.layer(0, count)))), tolerance);
    past.advance(count);
  };
  take(std::integral_constant<gr::index_t, 1>{}, 1);
  take(std::integral_constant<gr::index_t, 16>{}, 16);
  take(std::integral_constant<gr::index_t, 32>{}, 20);
  take(std::integral_constant<gr::index_t, 1>{}, 1);
  take(std::integral_constant<gr::index_t, 5>{}, 5);
  take(std::integral_constant<gr::index_t, 4>{}, 0);
}

/// Two sequences that go on from the same times.
template <class D>
void repeated_past_case(runner<D>& r) {
  constexpr gr::index_t heads = 2, depth = 8, width = 3 * heads * depth;
  auto& ctx = r.ctx();
  gr::nn::key_value_cache<gr::on<D>, 1, 1, heads, 9, depth> one(ctx);
  gr::nn::key_value_cache<gr::on<D>, 1, 2, heads, 9, depth> two(ctx);
  const auto first = gr::from_host<float, gr::shape<1, 3, width>>(ctx, r.template random<float>(3 * width).data());
  const auto then = gr::from_host<float, gr::shape<2, 1, width>>(ctx, r.template random<float>(2 * width).data());
  static_cast<void>(gr::causal_attention<heads>(first, one.layer(0, 3)));
  one.advance(3);
  two.repeat(one);
  r.keep("a past that was repeated", gr::to_host(gr::causal_attention<heads>(then, two.layer(0, 1))), 2e-5);
}

template <class D>
void attention_cases(runner<D>& r) {
  const auto causal = [](auto heads) {
    return [heads](auto x) { return gr::causal_attention<decltype(heads)::value>(x); };
  };
  constexpr std::integral_constant<gr::index_t, 1> one;
  constexpr std::integral_constant<gr::index_t, 2> two;
  constexpr std::integral_constant<gr::index_t, 3> three;
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
  cached_attention_case<gr::fp32, 2, 3, 16>(r, "with a past", 2e-5);
  cached_attention_case<gr::fp64, 1, 2, 33>(r, "with a past, double", 1e-12);
  cached_attention_case<gr::bf16_mixed, 2, 1, 64>(r, "with a past, bf16", 1e-2);
  cached_attention_case<gr::fp16_mixed, 1, 2, 100>(r, "with a past, f16", 2e-3);
  repeated_past_case(r);
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
