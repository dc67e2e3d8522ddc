#include <doctest/doctest.h>

#include "check.hpp"

namespace gr = gradus;
using namespace gradus_test;

TEST_CASE("the gradient of logsumexp is the softmax") {
  workplace at;
  const auto check = [](const auto& x) {
    check_gradient(
        "logsumexp", [](auto v) { return gr::logsumexp(v); }, x);
  };
  check(normal<double, gr::shape<3, 19>>(at.ctx));
  check(normal<double, gr::shape<2, 1>>(at.ctx));
  check(normal<double, gr::shape<7>>(at.ctx));
}
