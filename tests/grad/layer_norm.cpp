#include <doctest/doctest.h>

#include <gradus/testing/gradcheck.hpp>

#include "../support/operands.hpp"

namespace gr = gradus;
using namespace gradus_test;

namespace {
template <class Shape>
void check() {
  workplace at;
  auto x = normal<double, Shape>(at.ctx);
  // Values of a row that lie close together make the norm too curved for differences of this size; keep them apart.
  for (gr::index_t i = 0; i < x.size; ++i) x.data()[i] += 3.0 * static_cast<double>(i % Shape::extent(-1));
  const auto w = normal<double, gr::shape<Shape::extent(-1)>>(at.ctx);
  const auto b = normal<double, gr::shape<Shape::extent(-1)>>(at.ctx);
  const auto layer = gr::gradcheck([](auto v, auto m, auto s) { return gr::layer_norm(v, m, s); }, x, w, b);
  CHECK_MESSAGE(layer.ok, layer.message);
  const auto rms = gr::gradcheck([](auto v, auto m) { return gr::rms_norm(v, m, 1e-3); }, x, w);
  CHECK_MESSAGE(rms.ok, rms.message);
}
}  // namespace

TEST_CASE("gradients of layer_norm and rms_norm are right at one row, odd sizes, and beyond a pack and a row block") {
  check<gr::shape<1, 3>>();
  check<gr::shape<3, 5, 7>>();
  check<gr::shape<2, 19>>();
  check<gr::shape<70, 3>>();
}
