#pragma once
#include <gradus/nn/key_value_cache.hpp>
#include <gradus/ops/attention/attention.hpp>
#include <gradus/ops/rope/rope.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "../support/documents.hpp"
#include "cases.hpp"

/// Rows of a text that comes in parts, the last of them padded: all at once, and then with a past.
template <class P, gr::index_t Batch, gr::index_t Heads, gr::index_t Depth, class D>
void cached_attention_case(runner<D>& r, const std::string& name, double tolerance) {
  using T = typename P::compute;
  constexpr gr::index_t times = 253, width = 3 * Heads * Depth;
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
  take(std::integral_constant<gr::index_t, 209>{}, 209);
  take(std::integral_constant<gr::index_t, 1>{}, 1);
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

/// Attention with options, which `change` sets on those of a mask and of lengths.
template <class T, gr::index_t Heads, class Q, class K, class... Bias, class D, class Change>
void options_case(runner<D>& r, const std::string& name, const Change& change) {
  constexpr gr::index_t batch = Q::extent(0), keys = K::extent(1);
  std::vector<std::uint8_t> mask(batch * keys);
  for (std::size_t i = 0; i < mask.size(); ++i) mask[i] = i % 3 != 0 && (i + 40) % 150 > 70;  // whole tiles are false
  std::vector<std::int32_t> lengths(batch, static_cast<std::int32_t>(keys) / 2);
  lengths.back() = 0;
  gr::attention_options<D> options;
  options.mask = gr::from_host<bool, gr::shape<batch, keys>>(r.ctx(), reinterpret_cast<const bool*>(mask.data()));
  options.key_lengths = gr::from_host<std::int32_t, gr::shape<batch>>(r.ctx(), lengths.data());
  change(options);
  r.template differentiate<T, Q, K, K, Bias...>(
      name, [&](auto q, auto k, auto v, auto... bias) { return gr::attention<Heads>(q, k, v, bias..., options); });
}

template <class D>
void attention_options_cases(runner<D>& r) {
  const auto none = [](auto& o) { o.mask = {}, o.key_lengths = {}; };
  const auto causal = [&](auto& o) { none(o), o.causal = true; };
  const auto windowed = [](auto& o) { o.key_lengths = {}, o.window = 30, o.dropout = 0.25, o.scale = 0.3; };
  const auto all = [](auto& o) { o.causal = true, o.window = 50, o.dropout = 0.5; };
  using Q = gr::shape<2, 70, 4 * 6>;
  using K = gr::shape<2, 83, 2 * 6>;
  options_case<float, 4, Q, K>(r, "lengths and a mask", [](auto&) {});
  options_case<float, 4, Q, K>(r, "a mask, a window and dropout", windowed);
  options_case<float, 4, Q, K>(r, "causal, more keys than queries", causal);
  options_case<float, 4, Q, K, gr::shape<1, 4, 70, 83>>(r, "all options, a bias for each head", all);
  options_case<float, 4, Q, K, gr::shape<1, 1, 70, 83>>(r, "lengths and one bias", [](auto& o) { o.mask = {}; });
  using one = gr::shape<2, 66, 9>;
  options_case<double, 1, gr::shape<2, 131, 9>, one, gr::shape<2, 1, 131, 66>>(r, "all options, double", all);
  using Q16 = gr::shape<1, 66, 4 * 16>;
  options_case<gr::bf16, 4, Q16, gr::shape<1, 66, 2 * 16>>(r, "causal, heads share keys, bf16", causal);
  options_case<gr::bf16, 4, Q16, gr::shape<1, 66, 2 * 16>>(r, "a mask, a window and dropout, bf16", windowed);
}

/// Each option of attention alone and with each other one, in 16 bits: on tensor cores.
template <class D>
void option_pairs_cases(runner<D>& r) {
  constexpr gr::index_t times = 150;
  using pairs = gr::shape<2, times, 2>;
  const auto lie = gr::from_host<std::int32_t, pairs>(r.ctx(), gradus_test::draw_documents(2, times, 9).data());
  const std::vector<std::string> names = {"causal", "lengths", "window", "documents", "dropout", "mask", "scale"};
  const auto choose = [&](int first, int second) {
    return [&, first, second](auto& o) {
      const auto has = [&](int which) { return which == first || which == second; };
      if (has(0)) o.causal = true;
      if (!has(1)) o.key_lengths = {};
      if (has(2)) o.window = 40;
      if (has(3)) o.documents = lie;
      if (has(4)) o.dropout = 0.3;
      if (!has(5)) o.mask = {};
      if (has(6)) o.scale = -0.4;
    };
  };
  using Q = gr::shape<2, times, 2 * 16>;
  using K = gr::shape<2, times, 16>;
  using wide = gr::shape<1, times, 104>;
  for (int i = 0; i < 7; ++i) {
    const auto alone = choose(i, i);
    const std::string& name = names[static_cast<std::size_t>(i)];
    for (int j = i; j < 7; ++j)
      options_case<gr::bf16, 2, Q, K>(r, "bf16, " + name + ", " + names[static_cast<std::size_t>(j)], choose(i, j));
    options_case<gr::bf16, 2, Q, K, gr::shape<1, 2, times, times>>(r, "bf16, a bias, " + name, alone);
    if (i != 3) options_case<gr::f16, 1, wide, gr::shape<1, 67, 104>>(r, "f16, fewer keys, " + name, alone);
    if (i != 3) options_case<gr::f16, 1, wide, gr::shape<1, 211, 104>>(r, "f16, more keys, " + name, alone);
  }
}

/// Documents in rows of 131 tokens.
template <class D>
void documents_cases(runner<D>& r) {
  using pairs = gr::shape<2, 131, 2>;
  const auto drawn = gradus_test::draw_documents(2, 131, 7);
  const auto lie = gr::from_host<std::int32_t, pairs>(r.ctx(), drawn.data());
  const auto alone = [&](auto& o) { o.mask = {}, o.key_lengths = {}, o.documents = lie; };
  const auto causal = [&](auto& o) { alone(o), o.causal = true; };
  const auto all = [&](auto& o) { o.documents = lie, o.causal = true, o.window = 50, o.dropout = 0.5; };
  using Q = gr::shape<2, 131, 4 * 6>;
  using K = gr::shape<2, 131, 2 * 6>;
  options_case<float, 4, Q, K>(r, "documents", alone);
  options_case<float, 4, Q, K>(r, "documents, causal", causal);
  options_case<double, 4, Q, K, gr::shape<2, 1, 131, 131>>(r, "documents, all options and a bias", all);
  options_case<gr::bf16, 2, gr::shape<2, 131, 32>, gr::shape<2, 131, 32>>(r, "documents, bf16", causal);
  r.template differentiate<float, gr::shape<2, 131, 36>>("documents, packed operands", [&](auto x) {
    return gr::causal_attention<2>(x, {.dropout = 0.25, .documents = lie});
  });
  const auto at = gr::from_host<std::int32_t, gr::shape<2, 131>>(r.ctx(), gradus_test::positions_in(drawn, 131).data());
  r.template differentiate<float, Q>("rope, positions", [&](auto x) { return gr::rope<2>(x, at, {.position = 9}); });
}

/// New positions after cached ones, with heads that share keys: without and with options.
template <class D>
void shared_past_case(runner<D>& r) {
  constexpr gr::index_t depth = 24;
  auto& ctx = r.ctx();
  gr::nn::key_value_cache<gr::on<D>, 1, 2, 2, 160, depth> past(ctx);
  const auto mask = gr::cast<bool>(gr::from_host<float, gr::shape<2, 160>>(ctx, std::vector<float>(320, 1).data()));
  const auto take = [&]<gr::index_t Rows>(std::integral_constant<gr::index_t, Rows>) {
    const auto draw = [&]<class S>(S) {
      return gr::from_host<float, S>(ctx, r.template random<float>(S::size).data());
    };
    const auto q = draw(gr::shape<2, Rows, 6 * depth>{});
    const auto k = draw(gr::shape<2, Rows, 2 * depth>{}), v = draw(gr::shape<2, Rows, 2 * depth>{});
    r.keep("a shared past", gr::to_host(gr::attention<6>(q, k, v, past.layer(0, Rows))), 2e-5);
    r.keep("a shared past, a window",
           gr::to_host(gr::attention<6>(q, k, v, past.layer(0, Rows), {.mask = mask, .window = 7})), 2e-5);
    past.advance(Rows);
  };
  take(std::integral_constant<gr::index_t, 150>{});
  take(std::integral_constant<gr::index_t, 1>{});
}

template <class D>
void rope_cases(runner<D>& r) {
  const auto turn = [](auto options) { return [options](auto x) { return gr::rope<3>(x, options); }; };
  using X = gr::shape<2, 37, 3 * 14>;
  r.template differentiate<float, X>("rope", turn(gr::rope_options{.position = 100000}));
  r.template differentiate<double, X>("rope, double", turn(gr::rope_options{.layout = gr::rope_layout::pairs}));
  r.template differentiate<gr::bf16, X>("rope, bf16", turn(gr::rope_options{.scaling = {.factor = 8}}));
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
  attention_options_cases(r);
  option_pairs_cases(r);
  documents_cases(r);
  rope_cases(r);
  shared_past_case(r);
}

// Computed in the .cpp file.
std::vector<record> attention_on_cpu(unsigned seed);
