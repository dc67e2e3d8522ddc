#include <doctest/doctest.h>

#include <cmath>
#include <tuple>
#include <vector>

#include "../../support/operands.hpp"

namespace gr = gradus;
using namespace gradus_test;

namespace {

const auto layer = [](auto x, auto w, auto b) { return gr::layer_norm(x, w, b); };
const auto rms = [](auto x, auto w) { return gr::rms_norm(x, w); };

void compare(const outcome& found, const outcome& wanted, double within) {
  CHECK(worst_error(found.y, wanted.y) < within);
  CHECK(worst_error(found.gradients[0], wanted.gradients[0]) < within * 4);
  for (std::size_t i = 1; i < found.gradients.size(); ++i)
    CHECK(worst_error(found.gradients[i], wanted.gradients[i]) < within);
}

template <class Shape>
void check(double within) {
  workplace at;
  constexpr gr::index_t columns = Shape::extent(-1);
  auto x = normal<float, Shape>(at.ctx, 2.0);
  if constexpr (columns == 2) {
    // The gradient of two columns is rounding errors alone where they are far apart: it is eps / variance of its terms.
    for (gr::index_t i = 0; i < x.size; i += 2) {
      const float apart = x.data()[i + 1] - x.data()[i];
      x.data()[i + 1] = x.data()[i] + std::copysign(0.2f + 0.2f * std::tanh(std::abs(apart)), apart);
    }
  }
  const auto w = normal<float, gr::shape<columns>>(at.ctx);
  const auto b = normal<float, gr::shape<columns>>(at.ctx);
  const auto dy = normal<float, Shape>(at.ctx);
  const auto wanted = [&](bool centred) {
    return reference::norm(centred, columns, numbers(x), numbers(w), numbers(b), numbers(dy));
  };
  const auto l = evaluate(at.ctx, layer, dy, x, w, b);
  compare(numbers(l), wanted(true), within);
  CHECK(same_bits(gr::layer_norm(x, w, b), l.y));  // without a tape
  const auto r = evaluate(at.ctx, rms, dy, x, w);
  compare(numbers(r), wanted(false), within);
  CHECK(same_bits(gr::rms_norm(x, w), r.y));
}

}  // namespace

TEST_CASE("layer_norm and rms_norm are what they are defined to be, at odd sizes too") {
  check<gr::shape<3, 5, 13>>(1e-4);
  check<gr::shape<1, 16>>(1e-4);
  check<gr::shape<7, 2>>(1e-2);
  check<gr::shape<37, 129>>(1e-4);
  check<gr::shape<131, 384>>(1e-4);
  check<gr::shape<100>>(1e-4);
}

TEST_CASE("the norm of a single column is the bias") {
  workplace at;
  const auto b = normal<float, gr::shape<1>>(at.ctx);
  const auto y = gr::layer_norm(normal<float, gr::shape<4, 1>>(at.ctx), normal<float, gr::shape<1>>(at.ctx), b);
  for (const float v : y.values()) CHECK(v == b(0));
}

TEST_CASE("norms do not depend on the number of threads") {
  workplace at;
  using S = gr::shape<300, 77>;
  const auto x = normal<float, S>(at.ctx);
  const auto w = normal<float, gr::shape<77>>(at.ctx);
  const auto dy = normal<float, S>(at.ctx);
  const auto run = [&](int n) {
    const threads t(at.ctx, n);
    return std::make_tuple(evaluate(at.ctx, layer, dy, x, w, w), evaluate(at.ctx, rms, dy, x, w));
  };
  const auto [l1, r1] = run(1);
  const auto [l2, r2] = run(2);
  CHECK(same_bits(l1.y, l2.y));
  CHECK(same_bits(std::get<0>(l1.gradients), std::get<0>(l2.gradients)));
  CHECK(same_bits(std::get<1>(l1.gradients), std::get<1>(l2.gradients)));
  CHECK(same_bits(std::get<2>(l1.gradients), std::get<2>(l2.gradients)));
  CHECK(same_bits(r1.y, r2.y));
  CHECK(same_bits(std::get<0>(r1.gradients), std::get<0>(r2.gradients)));
  CHECK(same_bits(std::get<1>(r1.gradients), std::get<1>(r2.gradients)));
}

TEST_CASE("norms add to gradients that are there already") {
  workplace at;
  using S = gr::shape<9, 33>;
  const auto x = normal<double, S>(at.ctx);
  const auto w = normal<double, gr::shape<33>>(at.ctx);
  const auto dy = normal<double, S>(at.ctx);
  const auto doubled = [&](const auto& once, const auto& twice) {
    std::vector<double> wanted;
    for (const double v : once.values()) wanted.push_back(2 * v);
    CHECK(worst_error(twice.values(), wanted) < 1e-12);
  };
  const auto one = evaluate(at.ctx, layer, dy, x, w, w);
  const auto two = evaluate(
      at.ctx, [](auto v, auto m, auto b) { return gr::layer_norm(v, m, b) + gr::layer_norm(v, m, b); }, dy, x, w, w);
  doubled(std::get<0>(one.gradients), std::get<0>(two.gradients));
  doubled(std::get<1>(one.gradients), std::get<1>(two.gradients));
  doubled(std::get<2>(one.gradients), std::get<2>(two.gradients));
  const auto r1 = evaluate(at.ctx, rms, dy, x, w);
  const auto r2 = evaluate(
      at.ctx, [](auto v, auto m) { return gr::rms_norm(v, m) + gr::rms_norm(v, m); }, dy, x, w);
  doubled(std::get<0>(r1.gradients), std::get<0>(r2.gradients));
  doubled(std::get<1>(r1.gradients), std::get<1>(r2.gradients));
}

TEST_CASE("without a tape a norm allocates its output and nothing else") {
  workplace at;
  const auto x = normal<float, gr::shape<8, 16>>(at.ctx);
  const auto w = normal<float, gr::shape<16>>(at.ctx);
  const auto before = at.stats.all().total;
  const auto y = gr::layer_norm(x, w, w);
  CHECK(at.stats.all().total - before == x.bytes);
}

TEST_CASE("one parameter may be weight and bias") {
  workplace at;
  using S = gr::shape<7>;
  const auto rows = normal<float, gr::shape<5, 7>>(at.ctx), dy = normal<float, gr::shape<5, 7>>(at.ctx);
  const auto weight = normal<float, S>(at.ctx);
  gr::tape tape(at.ctx);
  const auto both = [&] {
    const auto p = tape.variable(weight);
    return std::get<0>(gr::gradients(gr::sum(gr::layer_norm(tape.watch(rows), p, p) * dy), p));
  }();
  const auto a = tape.variable(weight), b = tape.variable(weight);
  const auto [da, db] = gr::gradients(gr::sum(gr::layer_norm(tape.watch(rows), a, b) * dy), a, b);
  const auto sum = da + db;
  CHECK(worst_error(both.values(), sum.values()) < 1e-5);
}
