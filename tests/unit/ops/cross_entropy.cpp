#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <tuple>
#include <utility>
#include <vector>

#include "../../support/operands.hpp"

namespace gr = gradus;
using namespace gradus_test;

namespace {

void compare(const outcome& found, const outcome& wanted) {
  CHECK(found.y[0] == doctest::Approx(wanted.y[0]).epsilon(1e-5));
  double worst = 0;
  for (std::size_t i = 0; i < wanted.gradients[0].size(); ++i)
    worst = std::max(worst, std::abs(found.gradients[0][i] - wanted.gradients[0][i]));
  CHECK(worst < 1e-6);
}

template <gr::index_t Rows, gr::index_t Columns, gr::index_t Vocabulary, class I = std::int32_t>
void check(double scale) {
  workplace at;
  const auto x = normal<float, gr::shape<Rows, Columns>>(at.ctx, scale);
  const int low = std::is_signed_v<I> ? -1 : 0;
  auto targets = integers<I, gr::shape<Rows>>(at.ctx, low, static_cast<int>(Vocabulary) - 1);
  targets(0) = I(0);  // one row counts at least
  const auto copy = gr::clone(x);
  const auto dy = gr::ones<float, gr::shape<>>(at.ctx);
  const auto r = evaluate(
      at.ctx, [&](auto v) { return gr::cross_entropy<Vocabulary>(v, targets); }, dy, x);
  compare(numbers(r), reference::cross_entropy(Vocabulary, numbers(x), numbers(targets)));
  CHECK(same_bits(gr::cross_entropy<Vocabulary>(x, targets), r.y));
  CHECK(same_bits(x, copy));  // logits that somebody holds stay as they are
}

}  // namespace

TEST_CASE("cross_entropy is what it is defined to be, at odd sizes, padded and not, for any integer targets") {
  check<1, 1, 1>(1);
  check<5, 3, 2>(1);
  check<20, 17, 17>(3);
  check<33, 64, 61>(30);
  check<7, 1000, 1000, std::int64_t>(10);
  check<4, 256, 255, std::uint8_t>(1);
  check<9, 130, 130, std::uint16_t>(100);
}

TEST_CASE("recorded cross_entropy overwrites logits that are given away, and needs no other tensor of their size") {
  workplace at;
  constexpr gr::index_t rows = 64;
  constexpr gr::index_t columns = 512;
  using Logits = gr::tensor<float, gr::shape<rows, columns>>;
  const auto targets = integers<std::int32_t, gr::shape<rows>>(at.ctx, 0, columns - 1);
  const auto x = normal<float, gr::shape<rows, 8>>(at.ctx);
  gr::param<gr::on<gr::cpu>, 8, columns> w;
  w.set(normal<float, gr::shape<8, columns>>(at.ctx));
  gr::tape tape{at.ctx};
  const auto before = at.stats.all().live;
  at.stats.reset_peak();
  const auto loss = gr::cross_entropy(gr::linear(tape.watch(x), w), targets);
  CHECK(at.stats.all().peak - before < 2 * Logits::bytes);
  CHECK(at.stats.all().live - before < 2 * Logits::bytes);
  gr::backward(loss, 0.5f);  // a scaled loss neither
  CHECK(at.stats.all().peak - before < 2 * Logits::bytes);
}

TEST_CASE("cross_entropy's gradient scales with the gradient of the loss") {
  workplace at;
  const auto x = normal<float, gr::shape<6, 19>>(at.ctx);
  const auto targets = integers<std::int32_t, gr::shape<6>>(at.ctx, 0, 18);
  const auto run = [&](float scale) {
    return evaluate(
        at.ctx, [&](auto v) { return gr::cross_entropy(v, targets); }, gr::full<float, gr::shape<>>(at.ctx, scale), x);
  };
  const auto one = run(1.0f);
  const auto three = run(3.0f);
  std::vector<double> wanted;
  for (const float v : std::get<0>(one.gradients).values()) wanted.push_back(3 * static_cast<double>(v));
  CHECK(worst_error(std::get<0>(three.gradients).values(), wanted) < 1e-6);
}

TEST_CASE("rows whose target is ignored count for nothing; when all do, loss and gradient are 0") {
  workplace at;
  const auto x = normal<float, gr::shape<3, 5>>(at.ctx);
  const auto targets = gr::full<std::int32_t, gr::shape<3>>(at.ctx, -100);
  const auto r = evaluate(
      at.ctx, [&](auto v) { return gr::cross_entropy(v, targets, -100); }, gr::ones<float, gr::shape<>>(at.ctx), x);
  CHECK(gr::item(r.y) == 0.0f);
  for (const float v : std::get<0>(r.gradients).values()) CHECK(v == 0.0f);
}

TEST_CASE("a target that is no column is refused before anything is written") {
  workplace at;
  auto x = normal<float, gr::shape<3, 5>>(at.ctx);
  auto targets = integers<std::int32_t, gr::shape<3>>(at.ctx, 0, 3);
  targets(1) = 4;
  const auto copy = gr::clone(x);
  const float* where = x.data();
  gr::tape tape{at.ctx};
  auto v = tape.variable(std::move(x));
  CHECK_THROWS_WITH_AS(gr::cross_entropy<4>(v, targets),
                       "cross_entropy(logits, targets): target 4 of row 1 is outside 0 .. 3 and is not the ignored -1",
                       gr::error);
  CHECK(std::equal(where, where + copy.size, copy.data()));
}

TEST_CASE("cross_entropy of huge logits is finite, and does not depend on the number of threads") {
  workplace at;
  using S = gr::shape<130, 777>;
  const auto x = normal<float, S>(at.ctx, 1e4);
  const auto targets = integers<std::int32_t, gr::shape<130>>(at.ctx, -1, 776);
  const auto run = [&](int n) {
    const threads some(at.ctx, n);
    return evaluate(
        at.ctx, [&](auto v) { return gr::cross_entropy(v, targets); }, gr::ones<float, gr::shape<>>(at.ctx), x);
  };
  const auto one = run(1);
  const auto two = run(2);
  CHECK(std::isfinite(gr::item(one.y)));
  CHECK(same_bits(one.y, two.y));
  CHECK(same_bits(std::get<0>(one.gradients), std::get<0>(two.gradients)));
}
