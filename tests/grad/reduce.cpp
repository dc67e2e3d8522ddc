#include "check.hpp"

namespace gr = gradus;
using namespace gradus_test;

namespace {
template <class S, class Axes, bool Keep = false>
void check_axes() {
  workplace at;
  const auto x = normal<double, S>(at.ctx);
  const auto distinct = apart<S>(at.ctx);
  check_gradient(
      "sum", [](auto v) { return gr::sum<Axes, Keep>(v); }, x);
  check_gradient(
      "mean", [](auto v) { return gr::mean<Axes, Keep>(v); }, x);
  check_gradient(
      "variance", [](auto v) { return gr::variance<Axes, Keep>(v); }, x);
  check_gradient(
      "max", [](auto v) { return gr::max<Axes, Keep>(v); }, distinct);
  check_gradient(
      "min", [](auto v) { return gr::min<Axes, Keep>(v); }, distinct);
}
}  // namespace

TEST_CASE("gradients of reductions are right over the first, the last, inner and all axes, kept or not") {
  check_axes<gr::shape<>, gr::axes<>>();
  check_axes<gr::shape<19>, gr::axes<>, true>();
  check_axes<gr::shape<3, 19>, gr::axes<0>>();
  check_axes<gr::shape<3, 19>, gr::axes<-1>, true>();
  check_axes<gr::shape<3, 5, 7>, gr::axes<1>>();
  check_axes<gr::shape<3, 5, 7>, gr::axes<0, 2>, true>();
  check_axes<gr::shape<2, 3, 2, 5>, gr::axes<1, 3>>();
  check_axes<gr::shape<2, 3, 2, 5>, gr::axes<0, 2>>();
  check_axes<gr::shape<2, 3, 131>, gr::axes<0, 2>>();  // rows that one number goes along with
}

TEST_CASE("a mean keeps its gradient when it is broadcast back") {
  workplace at;
  check_gradient(
      "standardised",
      [](auto v) { return (v - gr::mean<1>(v, gr::keep_axes)) * gr::rsqrt(gr::variance<1>(v, gr::keep_axes) + 1e-5); },
      normal<double, gr::shape<3, 19>>(at.ctx));
}

TEST_CASE(
    "gradients of products, deviations, running sums and logsumexp are right over any axes, and where there are "
    "zeros") {
  workplace at;
  auto x = normal<double, gr::shape<3, 2, 19>>(at.ctx);
  x(0, 1, 3) = x(1, 0, 0) = x(1, 0, 18) = 0;
  check_gradient(
      "prod", [](auto v) { return gr::prod<-1>(v, gr::keep_axes); }, x);
  check_gradient(
      "prod", [](auto v) { return gr::prod<0>(v); }, x);
  check_gradient(
      "prod", [](auto v) { return gr::prod(v); }, between<gr::shape<37>>(at.ctx, 0.8, 1.2));
  check_gradient(
      "standard_deviation", [](auto v) { return gr::standard_deviation<0, 2>(v, gr::keep_axes); }, x);
  check_gradient(
      "cumsum", [](auto v) { return gr::cumsum<1>(v); }, x);
  check_gradient(
      "cumsum", [](auto v) { return gr::cumsum<-1>(v); }, x);
  check_gradient(
      "logsumexp", [](auto v) { return gr::logsumexp<1, 0>(v, gr::keep_axes); }, x);
}
