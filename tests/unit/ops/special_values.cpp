// Values and gradients of elementwise functions at 0, infinities, NaN and the limits of types; constants outside the
// range of an element's type; sums of long rows.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "../../support/message_of.hpp"
#include "../../support/operands.hpp"

namespace gr = gradus;
using namespace gradus_test;
using gr::shape;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity(), not_a_number = std::numeric_limits<double>::quiet_NaN();

template <class T, gr::index_t N>
auto list(workplace& at, const T (&v)[N]) {
  return gr::from_host<T, shape<N>>(at.ctx, v);
}
bool same(double a, double b) { return std::isnan(b) ? std::isnan(a) : a == b; }
template <class X>
void check(const X& found, const std::vector<double>& wanted) {
  const values v = numbers(found);
  REQUIRE(v.size() == wanted.size());
  for (std::size_t i = 0; i < v.size(); ++i) {
    CAPTURE(i);
    CAPTURE(v[i]);
    CAPTURE(wanted[i]);
    CHECK(same(v[i], wanted[i]));
  }
}

}  // namespace

TEST_CASE("clamp of integers takes any limits: those of the type beyond it, and whole ones within") {
  workplace at;
  const auto x = list<std::int32_t>(at, {-5, 0, 7, 2000000000});
  check(gr::clamp(x, 0, inf), {0, 0, 7, 2e9});
  check(gr::clamp(x, -inf, 5), {-5, 0, 5, 5});
  check(gr::clamp(x, 0, 1e10), {0, 0, 7, 2e9});
  check(gr::clamp(x, -1e300, 1e300), {-5, 0, 7, 2e9});
  check(gr::clamp(x, -4.5, 6.5), {-4, 0, 6, 6});
  const auto u = list<std::uint8_t>(at, {0, 7, 200, 255});
  check(gr::clamp(u, -1, 100), {0, 7, 100, 100});
  check(gr::clamp(u, 3, 300), {3, 7, 200, 255});
  const auto l = list<std::int64_t>(at, {(1LL << 53) + 1, -(1LL << 60) - 1});
  CHECK(gr::to_host(gr::clamp(l, -1e30, 1e30))[0] == (1LL << 53) + 1);
  CHECK(gr::to_host(gr::clamp(l, -1e30, 1e30))[1] == -(1LL << 60) - 1);
}

TEST_CASE("of equals, minimum and maximum choose the second") {
  workplace at;
  const auto both = [&](auto f) {
    const auto e =
        evaluate(at.ctx, f, gr::full<double, shape<2>>(at.ctx, 1), list<double>(at, {0, 3}), list<double>(at, {0, 3}));
    check(std::get<0>(e.gradients), {0, 0});
    check(std::get<1>(e.gradients), {1, 1});
  };
  both([](auto a, auto b) { return gr::minimum(a, b); });
  both([](auto a, auto b) { return gr::maximum(a, b); });
  const auto alone = evaluate(
      at.ctx, [](auto a) { return gr::maximum(a, 0.5); }, gr::full<double, shape<2>>(at.ctx, 1),
      list<double>(at, {0.5, 3}));
  check(std::get<0>(alone.gradients), {0, 1});
}

TEST_CASE("clamp keeps NaN, whose derivative is 0, and is high where low is above it") {
  workplace at;
  const auto x = list<double>(at, {not_a_number, inf, -inf, 0.5, 3, 0, 1});
  const auto f = evaluate(
      at.ctx, [](auto v) { return gr::clamp(v, 0, 1); }, gr::full<double, shape<7>>(at.ctx, 2), x);
  check(f.y, {not_a_number, 1, 0, 0.5, 1, 0, 1});
  check(std::get<0>(f.gradients), {0, 0, 0, 2, 0, 2, 2});
  check(gr::clamp(list<float>(at, {0, 3, 9}), 5, 1), {1, 1, 1});
}

TEST_CASE("integers compare with every constant, also with those above 2^63") {
  workplace at;
  const auto x = list<std::int64_t>(at, {std::numeric_limits<std::int64_t>::max(), -1, 5});
  const auto large = std::numeric_limits<std::uint64_t>::max(), half = std::uint64_t{1} << 63;
  for (const std::uint64_t c : {large, half}) {
    check(x < c, {1, 1, 1});
    check(x <= c, {1, 1, 1});
    check(x == c, {0, 0, 0});
    check(x != c, {1, 1, 1});
    check(x > c, {0, 0, 0});
    check(x >= c, {0, 0, 0});
    check(c > x, {1, 1, 1});
    check(c == x, {0, 0, 0});
  }
  check(x == half - 1, {1, 0, 0});
  check(x < -1, {0, 0, 0});
  check(list<std::uint8_t>(at, {0, 255}) > -1, {1, 1});
}

TEST_CASE("integers are divided by every whole constant, also by those above 2^63 and outside their type") {
  workplace at;
  const auto x = list<std::int64_t>(at, {std::numeric_limits<std::int64_t>::max(), -7, 5});
  check(x / std::numeric_limits<std::uint64_t>::max(), {0, 0, 0});
  check(x / (std::uint64_t{1} << 63), {0, 0, 0});
  check(x / 2u, {4611686018427387903.0, -3, 2});
  check(list<std::uint8_t>(at, {0, 255}) / 256, {0, 0});
  check(list<std::uint8_t>(at, {0, 255}) / -2, {0, 129});  // -127, which wraps around
}

TEST_CASE("where has the type of its values, whatever the condition's") {
  workplace at;
  const auto c = list<float>(at, {0, 0.5f});
  const auto a = list<std::int32_t>(at, {16777217, 2147483647}), b = list<std::int32_t>(at, {1, 2});
  const auto y = gr::where(c, a, b);
  static_assert(std::is_same_v<gr::value_of_t<decltype(y)>, std::int32_t>);
  check(y, {1, 2147483647});
  const auto z = gr::where(list<double>(at, {1, 0}), a, 5);
  static_assert(std::is_same_v<gr::value_of_t<decltype(z)>, std::int32_t>);
  check(z, {16777217, 5});
  const auto w = gr::where(list<std::int64_t>(at, {1, 0}), list<float>(at, {1.5f, 2.5f}), 0.5);
  static_assert(std::is_same_v<gr::value_of_t<decltype(w)>, float>);
  check(w, {1.5, 0.5});
}

TEST_CASE("x / c is a division, also by a c whose reciprocal is no number") {
  workplace at;
  const auto x = list<float>(at, {0, 49, 3, 1e-30f});
  check(x / 49.0, {0, 1, 3.0f / 49, 1e-30f / 49});
  check(list<float>(at, {0, 1e-39f}) / 1e-39, {0, 1});
  check(list<double>(at, {0, 1e-310}) / 1e-310, {0, 1});
}

TEST_CASE(
    "gradients at the edges: of prod beside an overflow, of atan2 at the origin and at infinity, of logsumexp beside "
    "infinity") {
  workplace at;
  const auto one = gr::full<float, shape<>>(at.ctx, 1.0f);
  const auto p = evaluate(
      at.ctx, [](auto v) { return gr::prod(v); }, one, list<float>(at, {0, 1e30f, 1e30f}));
  check(std::get<0>(p.gradients), {inf, 0, 0});
  const auto q = evaluate(
      at.ctx, [](auto v) { return gr::prod(v); }, one, list<float>(at, {0, 0, 1e30f}));
  check(std::get<0>(q.gradients), {0, 0, 0});
  const auto a = evaluate(
      at.ctx, [](auto y, auto x) { return gr::atan2(y, x); }, gr::full<double, shape<6>>(at.ctx, 1),
      list<double>(at, {0, 0, inf, 1, -inf, not_a_number}), list<double>(at, {0, 2, 1, -inf, inf, inf}));
  check(std::get<0>(a.gradients), {0, 0.5, 0, 0, 0, not_a_number});
  check(std::get<1>(a.gradients), {0, 0, 0, 0, 0, not_a_number});
  const auto l = evaluate(
      at.ctx, [](auto v) { return gr::logsumexp(v); }, one, list<float>(at, {static_cast<float>(inf), 100, -3}));
  check(l.y, {inf});
  check(std::get<0>(l.gradients), {not_a_number, 0, 0});
  const auto m = evaluate(
      at.ctx, [](auto v) { return gr::logsumexp(v); }, one,
      gr::full<float, shape<3>>(at.ctx, static_cast<float>(-inf)));
  check(m.y, {-inf});
  check(std::get<0>(m.gradients), {0, 0, 0});
}

TEST_CASE("rows of a million elements lose no digits to the order of sums") {
  workplace at;
  constexpr gr::index_t n = 1000007;
  auto x = normal<float, shape<1, n>>(at.ctx, 0.1);
  for (float& v : x.values()) v -= 0.1f;
  const values given = numbers(x);
  double sum = 0, exps = 0, squares = 0;
  for (const double v : given) sum += v, exps += std::exp(v);
  const double mean = sum / static_cast<double>(n);
  for (const double v : given) squares += (v - mean) * (v - mean);
  const auto near = [](double found, double wanted) {
    CAPTURE(found);
    CAPTURE(wanted);
    CHECK(std::abs(found - wanted) <= 2e-6 * std::abs(wanted));
  };
  near(gr::item(gr::sum(x)), sum);
  near(gr::item(gr::mean(x)), mean);
  near(gr::item(gr::variance(x)), squares / static_cast<double>(n));
  near(gr::item(gr::logsumexp<0, 1>(x)), std::log(exps));
  const auto targets = gr::full<std::int32_t, shape<1>>(at.ctx, 3);
  near(gr::item(gr::cross_entropy(x, targets)), std::log(exps) - given[3]);
  const auto check_rows = [&](const auto& found, auto wanted) {
    const values v = numbers(found);
    double worst = 0;
    for (std::size_t i = 0; i < n; ++i)
      worst = std::max(worst, std::abs(v[i] - wanted(given[i])) / std::abs(wanted(given[i])));
    CHECK(worst < 3e-6);
  };
  check_rows(gr::softmax(x), [&](double v) { return std::exp(v) / exps; });
  check_rows(gr::log_softmax(x), [&](double v) { return v - std::log(exps); });
  const auto w = gr::ones<float, shape<n>>(at.ctx), b = gr::full<float, shape<n>>(at.ctx, 10.0f);
  const double rstd = 1 / std::sqrt(squares / static_cast<double>(n) + 1e-5);
  check_rows(gr::layer_norm(x, w, b), [&](double v) { return (v - mean) * rstd + 10; });
}

TEST_CASE("norms of values far from 0 are as exact as their inputs") {
  workplace at;
  using rows = shape<3, 777>;
  for (const double offset : {1e4, 1e6}) {
    CAPTURE(offset);
    auto x = normal<float, rows>(at.ctx);
    for (float& v : x.values()) v += static_cast<float>(offset);
    const values given = numbers(x);
    const auto w = gr::ones<float, shape<777>>(at.ctx), b = gr::zeros<float, shape<777>>(at.ctx);
    const values y = numbers(gr::layer_norm(x, w, b));
    double worst = 0;
    for (std::size_t r = 0; r < 3; ++r) {
      double mean = 0, squares = 0;
      for (std::size_t i = 0; i < 777; ++i) mean += given[r * 777 + i] / 777;
      for (std::size_t i = 0; i < 777; ++i) squares += std::pow(given[r * 777 + i] - mean, 2) / 777;
      for (std::size_t i = 0; i < 777; ++i)
        worst = std::max(worst, std::abs(y[r * 777 + i] - (given[r * 777 + i] - mean) / std::sqrt(squares + 1e-5)));
    }
    CHECK(worst < 2e-6);
  }
}

TEST_CASE("layer_norm of equal values far from 0 is finite, however its sums are rounded") {
  workplace at;
  constexpr gr::index_t n = 20011;
  const auto w = gr::ones<float, shape<n>>(at.ctx), b = gr::zeros<float, shape<n>>(at.ctx);
  for (const float middle : {1.71501169e10f, 3.40973343e10f, 5.43518884e11f, 6.83710475e13f}) {
    CAPTURE(middle);
    const auto x = gr::full<float, shape<1, n>>(at.ctx, middle);
    bool finite = true;
    for (const double v : numbers(gr::layer_norm(x, w, b))) finite = finite && std::isfinite(v);
    CHECK(finite);
  }
}
