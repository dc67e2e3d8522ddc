#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include <gradus/ops/cross_entropy/cross_entropy.hpp>
#include "device.hpp"

namespace {

template <class T>
constexpr int mantissa_bits = std::is_same_v<T, gr::bf16> ? 7 : 10;
template <class T>
constexpr int least_exponent = std::is_same_v<T, gr::bf16> ? -126 : -14;

/// The distance of adjacent numbers of type T about x.
template <class T>
double ulp(double x) {
  const int exponent = x == 0 ? least_exponent<T> : std::max(std::ilogb(x), least_exponent<T>);
  return std::ldexp(1.0, exponent - mantissa_bits<T>);
}

/// The largest error beyond `slack`, in units of the last place; 0.5 are rounding. Infinities and NaN must be equal.
template <class T, class F>
double worst_error(const std::vector<T>& got, const std::vector<T>& x, const F& exact, double slack) {
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double value = static_cast<double>(static_cast<float>(got[i]));
    const double expected = exact(static_cast<double>(static_cast<float>(x[i])));
    if (std::isnan(value) && std::isnan(expected)) continue;
    if (value == expected) continue;
    const double error = (std::abs(value - expected) - slack) / ulp<T>(expected);
    if (std::isnan(error)) return std::numeric_limits<double>::infinity();
    worst = std::max(worst, error);
  }
  return worst;
}

/// All numbers of T: finite ones of both signs, infinities and NaN.
template <class T>
std::vector<T> all_numbers() {
  std::vector<T> all(65536);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = T::from_bits(static_cast<std::uint16_t>(i));
  return all;
}

double logistic(double x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); }
// x sigmoid(v) and its derivative for v with derivative `slope`, of x beyond all numbers where they still change.
double times_logistic(double x, double v) { return std::isinf(x) ? (x > 0 ? x : 0) : x * logistic(v); }
double times_logistic_slope(double x, double v, double slope) {
  return logistic(v) + x * logistic(v) * logistic(-v) * slope;
}
double within(double x, double bound) { return x > bound ? bound : x < -bound ? -bound : x; }
constexpr double c1 = 1.59576912160573071176, c3 = 0.07135481627260024878;

template <class T, class F, class Exact, class Slope>
void check_all(const std::string& name, const F& f, const Exact& exact, const Slope& slope, double slope_slack) {
  CAPTURE(name);
  gpu g;
  const std::vector<T> numbers = all_numbers<T>();
  gr::tape tape{g.ctx};
  const auto x = tape.variable(gr::from_host<T, gr::shape<65536>>(g.ctx, numbers.data()));
  const auto y = f(x);
  CHECK(worst_error(gr::to_host(y.value()), numbers, exact, 1e-36) < 0.51);
  gr::backward(gr::sum(y));
  CHECK(worst_error(gr::to_host(x.gradient()), numbers, slope, slope_slack) < 0.51);
}

template <class T>
void check_functions() {
  check_all<T>(
      "gelu", [](auto x) { return gr::gelu(x); }, [](double x) { return times_logistic(x, x * (c1 + c3 * x * x)); },
      [](double x) {
        const double at = within(x, 30);
        return times_logistic_slope(at, at * (c1 + c3 * at * at), c1 + 3 * c3 * at * at);
      },
      1e-6);
  check_all<T>(
      "silu", [](auto x) { return gr::silu(x); }, [](double x) { return times_logistic(x, x); },
      [](double x) {
        const double at = within(x, 300);
        return times_logistic_slope(at, at, 1);
      },
      1e-6);
  check_all<T>(
      "sigmoid", [](auto x) { return gr::sigmoid(x); }, [](double x) { return logistic(within(x, 300)); },
      [](double x) { return logistic(within(x, 300)) * logistic(-within(x, 300)); }, 1e-37);
  CHECK(worst_error(
            [] {
              gpu g;
              const auto numbers = all_numbers<T>();
              return gr::to_host(gr::tanh(gr::from_host<T, gr::shape<65536>>(g.ctx, numbers.data())));
            }(),
            all_numbers<T>(), [](double x) { return std::tanh(x); }, 0) < 0.51);
}

}  // namespace

TEST_CASE("of all 16-bit numbers, the GPU's coarse functions are rounded as those of float64 are, to 0.01 units") {
  if (no_gpu()) return;
  check_functions<gr::bf16>();
  check_functions<gr::f16>();
}

TEST_CASE("the gradient of 16-bit logits is that of float64, rounded, and the loss has the precision of float") {
  if (no_gpu()) return;
  constexpr gr::index_t rows = 5, columns = 1032, classes = 1001;
  const unsigned seed = gradus_test::fresh_seed();
  CAPTURE(seed);
  gpu g;
  runner<gr::cuda> r(g.ctx, seed);
  const auto logits = r.random<gr::bf16>(rows * columns, -9, 9);
  const std::vector<std::int32_t> targets{3, -1, 1000, 517, 0};
  gr::tape tape{g.ctx};
  const auto x = tape.variable(gr::from_host<gr::bf16, gr::shape<rows, columns>>(g.ctx, logits.data()));
  const auto loss = gr::cross_entropy<classes>(x, gr::from_host<std::int32_t, gr::shape<rows>>(g.ctx, targets.data()));
  gr::backward(loss);
  const auto gradient = gr::to_host(x.gradient());
  double expected_loss = 0, worst = 0;
  for (gr::index_t row = 0; row < rows; ++row) {
    const gr::bf16* const at = logits.data() + row * columns;
    double total = 0;
    for (gr::index_t c = 0; c < classes; ++c) total += std::exp(static_cast<double>(at[c]));
    const bool counts = targets[row] >= 0;
    if (counts)
      expected_loss += (std::log(total) - static_cast<double>(at[static_cast<std::size_t>(targets[row])])) / 4;
    for (gr::index_t c = 0; c < columns; ++c) {
      double expected = counts && c < classes ? std::exp(static_cast<double>(at[c])) / total / 4 : 0;
      if (counts && static_cast<std::int32_t>(c) == targets[row]) expected -= 0.25;
      const double error = std::abs(static_cast<double>(gradient[row * columns + c]) - expected);
      worst = std::max(worst, error / ulp<gr::bf16>(expected));
    }
  }
  CHECK(worst < 0.51);
  CHECK(static_cast<double>(gr::to_host(loss.value())[0]) == doctest::Approx(expected_loss).epsilon(1e-6));
}
