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
