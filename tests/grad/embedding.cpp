#include <doctest/doctest.h>

#include <gradus/testing/gradcheck.hpp>

#include <cstdint>

#include "../support/operands.hpp"

namespace gr = gradus;
using namespace gradus_test;

TEST_CASE("the gradient of embedding is right, with tokens that repeat") {
  workplace at;
  const auto look = [](auto tokens, auto table) { return gr::embedding(tokens, table); };
  const auto small =
      gr::gradcheck(look, gr::zeros<std::int32_t, gr::shape<1>>(at.ctx), normal<double, gr::shape<1, 1>>(at.ctx));
  CHECK_MESSAGE(small.ok, small.message);
  const auto r = gr::gradcheck(look, integers<std::int32_t, gr::shape<3, 5>>(at.ctx, 0, 3),
                               normal<double, gr::shape<5, 67>>(at.ctx));
  CHECK_MESSAGE(r.ok, r.message);
}

TEST_CASE("the gradients of gather, index_select and scatter_add are right, with indices that repeat") {
  workplace at;
  const auto check = [](const auto& f, const auto&... xs) {
    const auto r = gr::gradcheck(f, xs...);
    CHECK_MESSAGE(r.ok, r.message);
  };
  const auto x = normal<double, gr::shape<3, 5, 7>>(at.ctx);
  check([](auto v, auto i) { return gr::index_select<1>(v, i) * gr::index_select<1>(v, i); }, x,
        integers<std::int32_t, gr::shape<9>>(at.ctx, 0, 4));
  const auto at_axis = integers<std::int64_t, gr::shape<3, 5, 11>>(at.ctx, 0, 6);
  check([](auto v, auto i) { return gr::gather<2>(v, i) * gr::gather<2>(v, i); }, x, at_axis);
  check([](auto v, auto i, auto w) { return gr::scatter_add<2>(v * v, i, w * w); }, x, at_axis,
        normal<double, gr::shape<3, 5, 11>>(at.ctx));
}
