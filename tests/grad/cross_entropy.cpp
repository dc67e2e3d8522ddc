#include <doctest/doctest.h>

#include <gradus/testing/gradcheck.hpp>

#include <cstdint>

#include "../support/operands.hpp"

namespace gr = gradus;
using namespace gradus_test;

namespace {
template <gr::index_t Rows, gr::index_t Columns, gr::index_t Vocabulary>
void check() {
  workplace at;
  auto targets = integers<std::int32_t, gr::shape<Rows>>(at.ctx, -1, static_cast<int>(Vocabulary) - 1);
  targets(Rows - 1) = 0;
  const auto r = gr::gradcheck([&](auto x) { return gr::cross_entropy<Vocabulary>(x, targets); },
                               normal<double, gr::shape<Rows, Columns>>(at.ctx));
  CHECK_MESSAGE(r.ok, r.message);
}
}  // namespace

TEST_CASE("the gradient of cross_entropy is right, with ignored rows and padded columns") {
  check<1, 1, 1>();
  check<3, 5, 5>();
  check<4, 13, 11>();
  check<2, 75, 70>();
}
