#include "check.hpp"

namespace gr = gradus;
using namespace gradus_test;

namespace {

using X = gr::on<gr::cpu, gr::fp64>;

template <gr::index_t Groups, class Shape>
void check() {
  workplace at;
  auto x = normal<double, Shape>(at.ctx);
  // Values that lie close together make a norm too curved for differences of this size; keep them apart.
  constexpr gr::index_t count = Shape::size / Shape::extent(1);
  for (gr::index_t i = 0; i < x.size; ++i) x.data()[i] += 2.0 * static_cast<double>((i * 7 + i / count) % 5);
  const auto w = normal<double, gr::shape<Shape::extent(1)>>(at.ctx);
  const auto b = normal<double, gr::shape<Shape::extent(1)>>(at.ctx);
  gr::nn::batch_norm<X, Shape::extent(1)> layer;
  gr::init(layer, at.ctx, gr::normal_init{});
  check_gradient(
      "batch_norm",
      [&](auto v, auto m, auto s) { return gr::batch_norm(v, m, s, layer.running_mean, layer.running_var); }, x, w, b);
  check_gradient(
      "group_norm", [](auto v, auto m, auto s) { return gr::group_norm<Groups>(v, m, s, 1e-3); }, x, w, b);
}

}  // namespace

TEST_CASE("gradients of batch_norm and group_norm are right, with the part of the statistics") {
  check<2, gr::shape<3, 4, 2, 5>>();
  check<1, gr::shape<2, 3, 19>>();
  check<1, gr::shape<9, 3>>();
}
