#include <doctest/doctest.h>

#include <gradus/testing/gradcheck.hpp>

#include <cstdint>

#include "../support/operands.hpp"

namespace gr = gradus;
using namespace gradus_test;

namespace {
template <gr::index_t Rows, gr::index_t Width, gr::index_t TableRows, gr::index_t Vocabulary, gr::index_t ChunkRows>
void check() {
  workplace at;
  auto targets = integers<std::int32_t, gr::shape<Rows>>(at.ctx, -1, static_cast<int>(Vocabulary) - 1);
  targets(0) = -1;
  targets(Rows - 1) = 0;
  const auto r = gr::gradcheck(
      [&](auto x, auto table) {
        return gr::apply(gr::op::linear_cross_entropy<Vocabulary, ChunkRows>{-1}, x, table, targets);
      },
      normal<double, gr::shape<Rows, Width>>(at.ctx), normal<double, gr::shape<TableRows, Width>>(at.ctx));
  CHECK_MESSAGE(r.ok, r.message);
}
}  // namespace

TEST_CASE("the gradients of linear_cross_entropy are right, with ignored rows, a padded table, and in chunks") {
  check<1, 1, 1, 1, 0>();
  check<3, 5, 5, 5, 0>();
  check<5, 3, 13, 11, 1>();
  check<7, 19, 6, 5, 3>();
  check<4, 2, 75, 70, 2>();
}

TEST_CASE("the gradient of linear_cross_entropy is right where x and table come from one tensor") {
  workplace at;
  const auto targets = integers<std::int32_t, gr::shape<5>>(at.ctx, 0, 4);
  const auto r = gr::gradcheck([&](auto x) { return gr::linear_cross_entropy(x, x, targets); },
                               normal<double, gr::shape<5, 3>>(at.ctx));
  CHECK_MESSAGE(r.ok, r.message);
}
