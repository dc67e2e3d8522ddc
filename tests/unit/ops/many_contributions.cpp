// Gradients of 16 bits that one operation adds up from many contributions: each is rounded once.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <tuple>

#include "../../support/operands.hpp"

namespace gr = gradus;
using namespace gradus_test;

namespace {

// All of one sign, so that rounded partial sums would stop growing.
template <class T, class Shape>
auto positive(gr::context<gr::cpu>& ctx) {
  return gr::cast<T>(gr::abs(normal<float, Shape>(ctx)) + 0.5f);
}

// Gradients of f in T beside those of the same numbers in double.
template <class T, class F, class G, class... Xs>
void check(workplace& at, const std::string& what, const F& f, const G& dy, const Xs&... xs) {
  CAPTURE(what);
  const auto low = evaluate(
      at.ctx, [&](auto... vs) { return gr::cast<T>(f(vs...)); }, dy, xs...);
  const auto wide = evaluate(
      at.ctx, [&](auto... vs) { return gr::cast<double>(f(vs...)); }, gr::cast<double>(dy), gr::cast<double>(xs)...);
  const double rounding = std::is_same_v<T, gr::bf16> ? 0x1p-8 : 0x1p-11;
  std::size_t number = 0;
  const auto compare = [&](const auto& found, const auto& wanted) {
    ++number;
    CAPTURE(number);
    CHECK(error_in_norm(found, wanted) < 1.5 * rounding);
  };
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (compare(std::get<I>(low.gradients), std::get<I>(wide.gradients)), ...);
  }(std::index_sequence_for<Xs...>{});
}

}  // namespace

TEST_CASE_TEMPLATE("gradients of keys and values in 16 bits are added up in float", T, gr::bf16, gr::f16) {
  workplace at;
  using gr::shape;
  {
    constexpr gr::index_t time = 3000;
    const auto x = positive<T, shape<1, time, 8>>(at.ctx), dy = positive<T, shape<1, time, 8>>(at.ctx);
    check<T>(
        at, "causal",
        [](auto v) { return gr::attention<1>(gr::detach(v) * 0, gr::detach(v) * 0, v, {.causal = true}); }, dy, x);
    const threads two(at.ctx, 2);
    check<T>(
        at, "causal, key ranges apart",
        [](auto v) { return gr::attention<1>(gr::detach(v) * 0, gr::detach(v) * 0, v, {.causal = true}); }, dy, x);
  }
  {
    constexpr gr::index_t time = 40, heads = 64;
    const auto q = gr::zeros<T, shape<2, time, heads * 8>>(at.ctx);
    const auto v = positive<T, shape<2, time, 8>>(at.ctx), dy = positive<T, shape<2, time, heads * 8>>(at.ctx);
    check<T>(
        at, "heads of a group",
        [&](auto c) { return gr::attention<heads>(gr::cast<gr::value_of_t<decltype(c)>>(q), gr::detach(c) * 0, c); },
        dy, v);
  }
}

TEST_CASE_TEMPLATE("gradients of 16 bits are added up in float by every operation", T, gr::bf16, gr::f16) {
  workplace at;
  using gr::shape;
  constexpr gr::index_t n = 5000;
  const auto same = gr::full<std::int32_t, shape<n>>(at.ctx, 1);
  {
    const auto table = positive<T, shape<3, 5>>(at.ctx), dy = positive<T, shape<n, 5>>(at.ctx);
    check<T>(
        at, "embedding", [&](auto t) { return gr::embedding(same, t); }, dy, table);
    check<T>(
        at, "index_select", [&](auto t) { return gr::index_select<0>(t, same); }, dy, table);
    check<T>(
        at, "expand", [&](auto t) { return gr::expand<n, 5>(gr::slice<0, 1, 1>(t)); }, dy, table);
  }
  {
    const auto x = positive<T, shape<n, 3>>(at.ctx), dy = positive<T, shape<n, 3>>(at.ctx);
    const auto indices = gr::full<std::int32_t, shape<n, 3>>(at.ctx, 7);
    check<T>(
        at, "gather", [&](auto a) { return gr::gather<0>(a, indices); }, dy, x);
    check<T>(
        at, "cumsum", [&](auto a) { return gr::cumsum<0>(a); }, dy, x);
    const auto w = positive<T, shape<3>>(at.ctx), b = positive<T, shape<3>>(at.ctx);
    check<T>(
        at, "broadcast", [&](auto a, auto c) { return a * c + c; }, dy, x, w);
    check<T>(
        at, "layer_norm",
        [&](auto g, auto c) {
          return gr::layer_norm(gr::cast<typename gr::tensor_of<decltype(g)>::value_type>(x), g, c);
        },
        dy, w, b);
  }
  {
    const auto x = positive<T, shape<1, 1, 40, 40>>(at.ctx), dy = positive<T, shape<1, 1, 26, 26>>(at.ctx);
    check<T>(
        at, "avg_pool2d", [](auto a) { return gr::avg_pool2d<gr::pool{.size = 15, .stride = 1}>(a); }, dy, x);
    const auto w = positive<T, shape<2, 1, 15, 15>>(at.ctx), of_two = positive<T, shape<1, 2, 26, 26>>(at.ctx);
    check<T>(
        at, "conv2d", [](auto a, auto f) { return gr::conv2d(a, f); }, gr::cast<T>(of_two), x, w);
  }
  {
    const auto x = positive<T, shape<n, 4>>(at.ctx), dy = positive<T, shape<n, 3>>(at.ctx);
    const auto w = positive<T, shape<2, 4, 3>>(at.ctx);
    const auto offsets = gr::from_values<std::int32_t, shape<3>>(at.ctx, {0, 100, static_cast<std::int32_t>(n)});
    check<T>(
        at, "grouped_matmul", [&](auto a, auto b) { return gr::grouped_matmul(a, b, offsets); }, dy, x, w);
    const auto m = positive<T, shape<4, 3>>(at.ctx);
    check<T>(
        at, "matmul", [](auto a, auto b) { return gr::matmul(a, b); }, dy, x, m);
  }
  {
    const auto x = positive<T, shape<500, 7, 4>>(at.ctx), dy = positive<T, shape<500, 7, 3>>(at.ctx);
    const auto w = positive<T, shape<4, 3>>(at.ctx);
    check<T>(
        at, "einsum of a shared operand", [](auto a, auto b) { return gr::einsum<"bij,jk->bik">(a, b); }, dy, x, w);
    const auto of_heads = positive<T, shape<2, 300, 5, 4>>(at.ctx), dh = positive<T, shape<2, 300, 5, 3>>(at.ctx);
    const auto shared = positive<T, shape<2, 4, 3>>(at.ctx);
    check<T>(
        at, "einsum of an operand that an inner axis shares",
        [](auto a, auto b) { return gr::einsum<"bhij,bjk->bhik">(a, b); }, dh, of_heads, shared);
  }
  {
    const auto x = positive<T, shape<50, 2, 10, 9>>(at.ctx), dy = positive<T, shape<50, 2, 10, 9>>(at.ctx);
    const auto w = positive<T, shape<2>>(at.ctx), b = positive<T, shape<2>>(at.ctx);
    check<T>(
        at, "group_norm",
        [&](auto g, auto c) {
          return gr::group_norm<2>(gr::cast<typename gr::tensor_of<decltype(g)>::value_type>(x), g, c);
        },
        dy, w, b);
    const auto filters = positive<T, shape<2, 1, 3, 3>>(at.ctx);
    check<T>(
        at, "depthwise conv2d", [](auto a, auto f) { return gr::conv2d<gr::conv{.padding = 1, .groups = 2}>(a, f); },
        dy, x, filters);
  }
  {
    const auto x = positive<T, shape<1, 1, 2, 2>>(at.ctx), dy = positive<T, shape<1, 1, 60, 60>>(at.ctx);
    check<T>(
        at, "interpolate", [](auto a) { return gr::interpolate<60, 60>(a); }, dy, x);
  }
}
