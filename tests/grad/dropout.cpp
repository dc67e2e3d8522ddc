#include <doctest/doctest.h>

#include <gradus/testing/gradcheck.hpp>

#include "../support/operands.hpp"

namespace gr = gradus;
using namespace gradus_test;

TEST_CASE("the gradient of dropout is right") {
  workplace at;
  const auto drop = [](auto x) { return gr::dropout(x, 0.4); };
  const auto one = gr::gradcheck(drop, normal<double, gr::shape<1>>(at.ctx));
  CHECK_MESSAGE(one.ok, one.message);
  const auto odd = gr::gradcheck(drop, normal<double, gr::shape<7, 11>>(at.ctx));
  CHECK_MESSAGE(odd.ok, odd.message);
}
