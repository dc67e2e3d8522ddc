// softmax, and the operations that move elements without computing.
#include <doctest/doctest.h>

#include <cstdint>
#include <span>
#include <string>
#include <tuple>

#include "ops.hpp"

namespace gr = gradus;
using namespace gradus_test;

TEST_CASE_TEMPLATE("softmax and its logarithm have PyTorch's values and gradients, near overflow too", T, double,
                   float) {
  const given<gr::shape<3, 5, 11>> x{"x"};
  check_case<T>(
      "softmax", [](auto v) { return gr::softmax(v); }, x);
  check_case<T>(
      "log_softmax", [](auto v) { return gr::log_softmax(v); }, x);
  if constexpr (std::is_same_v<T, double>) {  // in float the inputs themselves, near 700, are off by 3e-5
    check_case<T>(
        "softmax_large", [](auto v) { return gr::softmax(v); }, x);
    check_case<T>(
        "log_softmax_large", [](auto v) { return gr::log_softmax(v); }, x);
  }
}

TEST_CASE_TEMPLATE("permute, slice and concat have PyTorch's values and gradients", T, double, float) {
  check_case<T>(
      "permute", [](auto v) { return gr::permute<1, 2, 0>(v); }, given<gr::shape<2, 3, 5>>{"x"});
  check_case<T>(
      "transpose", [](auto v) { return gr::permute<1, 0>(v); }, given<gr::shape<3, 5>>{"x"});
  check_case<T>(
      "slice", [](auto v) { return gr::slice<1, 2, 4>(v); }, given<gr::shape<5, 7, 3>>{"x"});
  check_case<T>(
      "concat", [](auto u, auto v) { return gr::concat<1>(u, v); }, given<gr::shape<2, 3, 5>>{"a"},
      given<gr::shape<2, 4, 5>>{"b"});
}

TEST_CASE_TEMPLATE("split has PyTorch's values and gradients", T, double, float) {
  workplace at;
  gr::tape<gr::cpu> tape(at.ctx);
  const auto x = tape.variable(recorded<T, gr::shape<2, 9, 5>>(at.ctx, "split.x"));
  const auto parts = gr::split<1, 2, 3, 4>(x);
  check_recorded(std::get<0>(parts).value(), "split.y0");
  check_recorded(std::get<1>(parts).value(), "split.y1");
  check_recorded(std::get<2>(parts).value(), "split.y2");
  std::get<0>(parts).slot()->give(recorded<T, gr::shape<2, 2, 5>>(at.ctx, "split.dy0"));
  std::get<1>(parts).slot()->give(recorded<T, gr::shape<2, 3, 5>>(at.ctx, "split.dy1"));
  std::get<2>(parts).slot()->give(recorded<T, gr::shape<2, 4, 5>>(at.ctx, "split.dy2"));
  tape.unwind();
  check_recorded(x.gradient(), "split.dx");
}

TEST_CASE_TEMPLATE("stack, pad, roll, expand, tril and triu have PyTorch's values and gradients", T, double, float) {
  check_case<T>(
      "stack", [](auto a, auto b) { return gr::stack<1>(a, b, a); }, given<gr::shape<2, 3, 5>>{"a"},
      given<gr::shape<2, 3, 5>>{"b"});
  check_case<T>(
      "pad", [](auto v) { return gr::pad<1, 2, 1>(v, 1.5); }, given<gr::shape<2, 3, 5>>{"x"});
  check_case<T>(
      "roll", [](auto v) { return gr::roll<1>(v, -2); }, given<gr::shape<2, 7, 3>>{"x"});
  check_case<T>(
      "expand", [](auto v) { return gr::expand<4, 3, 5, 2>(v); }, given<gr::shape<3, 1, 2>>{"x"});
  check_case<T>(
      "slice", [](auto v) { return gr::slice<1, 4>(v, 2); }, given<gr::shape<5, 7, 3>>{"x"});
  check_case<T>(
      "tril", [](auto v) { return gr::tril<1>(v); }, given<gr::shape<2, 5, 7>>{"x"});
  check_case<T>(
      "triu", [](auto v) { return gr::triu<-2>(v); }, given<gr::shape<2, 5, 7>>{"x"});
}

namespace {
template <class S>
gr::tensor<std::int32_t, S> recorded_indices(gr::context<gr::cpu>& ctx, const std::string& name) {
  const auto from = recorded_ops(name).values(name);
  gr::tensor<std::int32_t, S> at(ctx);
  put(from, std::span<std::int32_t>(at.values()));
  return at;
}
}  // namespace

TEST_CASE_TEMPLATE("gather, index_select and scatter_add have PyTorch's values and gradients", T, double, float) {
  workplace at;
  using X = gr::shape<3, 5, 7>;
  const auto each = recorded_indices<gr::shape<3, 11, 7>>(at.ctx, "gather.at");
  check_case<T>(
      "gather", [&](auto v) { return gr::gather<1>(v, each); }, given<X>{"x"});
  const auto rows = recorded_indices<gr::shape<9>>(at.ctx, "index_select.at");
  check_case<T>(
      "index_select", [&](auto v) { return gr::index_select<1>(v, rows); }, given<X>{"x"});
  const auto added = recorded_indices<gr::shape<3, 11, 7>>(at.ctx, "scatter_add.at");
  check_case<T>(
      "scatter_add", [&](auto v, auto w) { return gr::scatter_add<1>(v, added, w); }, given<X>{"x"},
      given<gr::shape<3, 11, 7>>{"v"});
}

TEST_CASE("one_hot and argsort are PyTorch's, with elements that repeat") {
  workplace at;
  const auto found = [](const auto& y, const std::string& name) {
    CHECK(numbers(y) == recorded_ops(name).values(name));
  };
  found(gr::one_hot<6>(recorded_indices<gr::shape<3, 5>>(at.ctx, "one_hot.at")), "one_hot.y");
  using rows = gr::shape<3, 19>;
  found(gr::argsort(recorded_indices<rows>(at.ctx, "argsort.x")), "argsort.y");
  found(gr::argsort<gr::sort_order::descending>(recorded_indices<rows>(at.ctx, "argsort_descending.x")),
        "argsort_descending.y");
}

TEST_CASE_TEMPLATE("sort and topk have PyTorch's values, indices and gradients", T, double, float) {
  using X = gr::shape<3, 5, 11>;
  check_case<T>(
      "sort", [](auto v) { return gr::sort(v); }, given<X>{"x"});
  workplace at;
  gr::tape tape(at.ctx);
  const auto x = tape.variable(recorded<T, X>(at.ctx, "topk.x"));
  const auto [largest, where] = gr::topk<4>(x);
  check_recorded(largest.value(), "topk.y0");
  CHECK(numbers(where.value()) == recorded_ops("topk.y1").values("topk.y1"));
  largest.slot()->give(recorded<T, gr::shape<3, 5, 4>>(at.ctx, "topk.dy0"));
  tape.unwind();
  check_recorded(x.gradient(), "topk.dx");
}
