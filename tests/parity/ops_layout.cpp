// softmax, and the operations that move elements without computing.
#include <doctest/doctest.h>

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
