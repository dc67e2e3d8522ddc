#pragma once
#include <algorithm>
#include <cstdint>
#include <gradus/ops/dropout/dropout.hpp>
#include <gradus/ops/embedding/embedding.hpp>
#include <gradus/ops/expand/expand.hpp>
#include <gradus/ops/gather/gather.hpp>
#include <gradus/ops/interpolate/interpolate.hpp>
#include <gradus/ops/permute/permute.hpp>
#include <gradus/ops/slice/slice.hpp>
#include <gradus/ops/slice/stack_pad_roll.hpp>
#include <gradus/ops/sort/sort.hpp>
#include <gradus/ops/triangle/triangle.hpp>

#include "cases.hpp"

/// Tokens of which one is frequent, and one outside of the first and the last is never there.
template <class T, class Table, gr::index_t Tokens, class I, class D>
void embedding_case(runner<D>& r, const std::string& name, double tolerance) {
  auto& ctx = r.ctx();
  constexpr gr::index_t rows = Table::extent(0);
  std::vector<I> tokens(Tokens);
  const auto drawn = r.template random<float>(Tokens, 0, 1);
  for (gr::index_t i = 0; i < Tokens; ++i)
    tokens[i] =
        static_cast<I>(drawn[i] < 0.4f ? rows - 1
                                       : std::min<gr::index_t>(
                                             rows - 1, static_cast<gr::index_t>(drawn[i] * static_cast<float>(rows))));
  const auto ids = gr::from_host<I, gr::shape<Tokens>>(ctx, tokens.data());
  gr::tape tape{ctx};
  auto table = tape.variable(gr::from_host<T, Table>(ctx, r.template random<T>(Table::size).data()));
  auto y = gr::embedding(ids, table);
  r.keep(name, gr::to_host(y.value()), 0x1p-30);
  using Y = gr::shape_of<decltype(y)>;
  // used twice, so that one gradient is added to another
  auto z = y + gr::embedding(ids, table);
  gr::backward(gr::sum(z * gr::from_host<T, Y>(ctx, r.template random<T>(Y::size).data())));
  r.keep(name + ": gradient", gr::to_host(table.gradient()), tolerance);
}

/// Rows of a table in one type, given in another.
template <class P, class Table, class D>
void rounded_embedding_case(runner<D>& r, const std::string& name) {
  gr::param<gr::on<D, P>, Table::extent(0), Table::extent(1)> table;
  using T = typename P::store;
  table.set(gr::from_host<T, Table>(r.ctx(), r.template random<T>(Table::size).data()));
  const std::uint8_t tokens[] = {3, 0, 8, 3, 5};
  r.keep(name, gr::to_host(gr::embedding(gr::from_host<std::uint8_t, gr::shape<5>>(r.ctx(), tokens), table)), 0x1p-30);
}

template <class T, class S, class D>
void dropout_case(runner<D>& r, const std::string& name) {
  gr::tape tape{r.ctx(), 9};
  auto x = tape.variable(gr::from_host<T, S>(r.ctx(), r.template random<T>(S::size, 1, 2).data()));
  auto y = gr::dropout(gr::dropout(x, 0.3), 0.1);
  r.keep(name, gr::to_host(y.value()), 0x1p-30);
  gr::backward(gr::sum(y));
  r.keep(name + ": gradient", gr::to_host(x.gradient()), 0x1p-30);
}

template <class D>
void layout_cases(runner<D>& r) {
  const auto twice = [](auto f) { return [f](auto x) { return f(x) + f(x * 0.5); }; };
  r.template differentiate<float, gr::shape<37, 41>>("transpose", twice([](auto x) { return gr::permute<1, 0>(x); }));
  r.template differentiate<float, gr::shape<2, 9, 3, 8>>("heads",
                                                         twice([](auto x) { return gr::permute<0, 2, 1, 3>(x); }));
  r.template differentiate<float, gr::shape<5, 3, 7>>("rows move", [](auto x) { return gr::permute<1, 0, 2>(x); });
  r.template differentiate<gr::bf16, gr::shape<3, 33, 4, 35>>("matrices within",
                                                              [](auto x) { return gr::permute<3, 0, 2, 1>(x); });
  r.template differentiate<double, gr::shape<1, 6, 1>>("one column", [](auto x) { return gr::permute<2, 1, 0>(x); });

  r.template differentiate<float, gr::shape<5, 12>>("slice", twice([](auto x) { return gr::slice<1, 4, 8>(x); }));
  r.template differentiate<float, gr::shape<5, 12, 3>>("slice, odd", [](auto x) { return gr::slice<1, 5, 3>(x); });
  r.template differentiate<gr::f16, gr::shape<4, 8>, gr::shape<4, 16>>(
      "concat", [](auto a, auto b) { return gr::concat<1>(a, b, a); });
  r.template differentiate<float, gr::shape<3, 2>, gr::shape<1, 2>>("concat, odd",
                                                                    [](auto a, auto b) { return gr::concat<0>(a, b); });

  r.template differentiate<float, gr::shape<5, 12>>(
      "slice at a run-time index", twice([](auto x) { return gr::slice<1, 4>(x, 5) + gr::slice<1, 4>(x, 8); }));
  r.template differentiate<float, gr::shape<3, 5>, gr::shape<3, 5>>("stack",
                                                                    [](auto a, auto b) { return gr::stack<1>(a, b); });
  r.template differentiate<gr::bf16, gr::shape<3, 5>>("pad", twice([](auto x) { return gr::pad<1, 2, 1>(x, 1.5); }));
  r.template differentiate<float, gr::shape<3, 9>>("roll", twice([](auto x) { return gr::roll<1>(x, -4); }));
  r.template differentiate<float, gr::shape<3, 1, 9>>("expand",
                                                      twice([](auto x) { return gr::expand<2, 3, 4, 9>(x); }));

  embedding_case<float, gr::shape<50, 12>, 1000, std::int32_t>(r, "embedding", 2e-5);
  embedding_case<float, gr::shape<3, 5>, 1, std::uint8_t>(r, "embedding of one", 2e-5);
  embedding_case<float, gr::shape<300, 7>, 193, std::int64_t>(r, "embedding, odd", 2e-5);
  embedding_case<gr::bf16, gr::shape<9, 1100>, 130, std::uint16_t>(r, "embedding, bf16", 3e-2);
  rounded_embedding_case<gr::bf16_stream, gr::shape<9, 1100>>(r, "embedding, rows of bf16");
  rounded_embedding_case<gr::bf16_stream, gr::shape<9, 7>>(r, "embedding, rows of bf16, odd");
  using full = gr::precision_with<gr::bf16_pure, gr::in_full<gr::op::embedding>>;
  rounded_embedding_case<full, gr::shape<9, 40>>(r, "embedding, rows of float");
  rounded_embedding_case<full, gr::shape<9, 7>>(r, "embedding, rows of float, odd");

  // Indices in 0 .. n-1, some often: the product of two draws.
  const auto indices = [&]<class I, class S>(I, S, gr::index_t n) {
    const auto a = r.template random<float>(S::size, 0, 1), b = r.template random<float>(S::size, 0, 1);
    std::vector<I> at(S::size);
    for (gr::index_t i = 0; i < S::size; ++i) at[i] = static_cast<I>(a[i] * b[i] * static_cast<float>(n));
    return gr::from_host<I, S>(r.ctx(), at.data());
  };
  const auto rows = indices(std::int32_t{}, gr::shape<200>{}, 6);
  r.template differentiate<float, gr::shape<6, 8>>("index_select",
                                                   twice([&](auto x) { return gr::index_select<0>(x, rows); }));
  r.template differentiate<gr::bf16, gr::shape<2, 6, 3>>("index_select of bf16, odd",
                                                         twice([&](auto x) { return gr::index_select<1>(x, rows); }));
  const auto each = indices(std::int64_t{}, gr::shape<3, 70, 5>{}, 7);
  r.template differentiate<float, gr::shape<3, 7, 5>>("gather", twice([&](auto x) { return gr::gather<1>(x, each); }));
  r.template differentiate<float, gr::shape<3, 7, 5>, gr::shape<3, 70, 5>>(
      "scatter_add", [&](auto x, auto v) { return gr::scatter_add<1>(x, each, v); });
  r.template differentiate<gr::f16, gr::shape<3, 7, 5>, gr::shape<3, 70, 5>>(
      "scatter_add of f16", [&](auto x, auto v) { return gr::scatter_add<1>(x, each, v); });
  r.template differentiate<float, gr::shape<2, 6, 5>, gr::shape<2, 200, 5>>(
      "index_add", [&](auto x, auto v) { return gr::index_add<1>(x, rows, v); });
  r.template differentiate<float, gr::shape<2, 3, 4, 5>>("interpolate",
                                                         twice([](auto x) { return gr::interpolate<7, 8>(x); }));
  r.template differentiate<gr::bf16, gr::shape<2, 3, 4, 5>>(
      "interpolate, bilinear", [](auto x) { return gr::interpolate<3, 11, gr::interpolation::bilinear>(x); });
  r.keep("one_hot", gr::to_host(gr::one_hot<7>(each)), 0x1p-30);

  r.template differentiate<float, gr::shape<3, 300>>("sort", [](auto x) { return gr::sort(x); });
  r.template differentiate<double, gr::shape<3, 7>>("topk", [](auto x) { return gr::topk<3>(x).first; });
  const auto places = [&]<class T, class S>(const std::string& name, T, S) {  // of elements of which many are equal
    const auto drawn = r.template random<float>(S::size, std::is_signed_v<T> ? -5 : 0, 5);
    std::vector<T> x(S::size);
    for (gr::index_t i = 0; i < S::size; ++i) x[i] = static_cast<T>(static_cast<int>(drawn[i]));
    const auto on = gr::from_host<T, S>(r.ctx(), x.data());
    r.keep(name, gr::to_host(gr::argsort(on)), 0x1p-30);
    r.keep(name + ", descending", gr::to_host(gr::argsort<gr::sort_order::descending>(on)), 0x1p-30);
    r.keep(name + ", the first three", gr::to_host(gr::topk<3>(on).second), 0x1p-30);
  };
  places("argsort", float{}, gr::shape<5, 33>{});
  places("argsort of double", double{}, gr::shape<65>{});
  places("argsort of i64", std::int64_t{}, gr::shape<2, 3, 17>{});
  places("argsort of i32", std::int32_t{}, gr::shape<3, 17>{});
  places("argsort of u8", std::uint8_t{}, gr::shape<3, 17>{});

  r.template differentiate<float, gr::shape<2, 5, 7>>(
      "tril and triu", [](auto x) { return gr::tril<1>(x) + gr::triu<-1>(x) + gr::tril<-2>(x); });
  r.template differentiate<gr::bf16, gr::shape<33, 8>>("triu of bf16", twice([](auto x) { return gr::triu(x); }));

  dropout_case<float, gr::shape<3, 1001>>(r, "dropout");
  dropout_case<float, gr::shape<3>>(r, "dropout of three");
  dropout_case<gr::bf16, gr::shape<16, 64>>(r, "dropout, bf16");
  dropout_case<double, gr::shape<5, 5>>(r, "dropout, double");

  auto& ctx = r.ctx();
  r.keep("full", gr::to_host(gr::full<float, gr::shape<1027>>(ctx, 1.5f)), 0x1p-30);
  r.keep("full, f16", gr::to_host(gr::full<gr::f16, gr::shape<13>>(ctx, gr::f16(-2.5f))), 0x1p-30);
  r.keep("full, one number", gr::to_host(gr::full<double, gr::shape<>>(ctx, 0.1)), 0x1p-30);
  const auto x = gr::from_host<float, gr::shape<1001>>(ctx, r.template random<float>(1001, -1e3, 1e3).data());
  r.keep("cast to bf16", gr::to_host(gr::cast<gr::bf16>(x)), 0x1p-30);
  r.keep("cast to f16", gr::to_host(gr::cast<gr::f16>(x)), 0x1p-30);
  r.keep("cast to double", gr::to_host(gr::cast<double>(x)), 0x1p-30);
  r.keep("cast and back", gr::to_host(gr::cast<float>(gr::cast<gr::f16>(x))), 0x1p-30);
}

// Computed in the .cpp file.
std::vector<record> layout_on_cpu(unsigned seed);
