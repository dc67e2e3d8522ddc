#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <tuple>
#include <vector>

#include "../../support/operands.hpp"

namespace gr = gradus;
using namespace gradus_test;

namespace {

// Elements of x that become each output, in row-major order of the reduced axes.
template <class S, class Axes>
std::vector<std::vector<std::size_t>> groups() {
  std::vector<std::vector<std::size_t>> all(gr::reduced_shape<S, Axes>::size);
  for (std::size_t i = 0; i < S::size; ++i) {
    std::size_t out = 0;
    for (std::size_t a = 0; a < S::rank; ++a) {
      if (Axes::contains(a, S::rank)) continue;
      out = out * S::extents[a] + i / S::stride(static_cast<std::ptrdiff_t>(a)) % S::extents[a];
    }
    all[out].push_back(i);
  }
  return all;
}

template <class T, class S, class Axes>
void check() {
  workplace at;
  const auto x = normal<T, S>(at.ctx) + 3.0;
  const auto wanted = groups<S, Axes>();
  std::vector<double> sums, variances, largest, smallest;
  std::vector<std::int32_t> places;
  for (const auto& g : wanted) {
    double s = 0, v = 0, hi = -INFINITY, lo = INFINITY;
    std::int32_t place = 0;
    for (std::size_t k = 0; k < g.size(); ++k) {
      const double e = static_cast<double>(x.values()[g[k]]);
      s += e;
      if (e > hi) hi = e, place = static_cast<std::int32_t>(k);
      lo = std::min(lo, e);
    }
    const double n = static_cast<double>(g.size());
    for (const std::size_t i : g) v += std::pow(static_cast<double>(x.values()[i]) - s / n, 2) / n;
    sums.push_back(s), variances.push_back(v), largest.push_back(hi), smallest.push_back(lo), places.push_back(place);
  }
  const double near = std::is_same_v<T, double> ? 1e-13 : 1e-6;
  CHECK(worst_error(gr::to_host(gr::sum<Axes>(x)), sums) < near);
  CHECK(worst_error(gr::to_host(gr::variance<Axes>(x)), variances) < 10 * near);
  CHECK(worst_error(gr::to_host(gr::max<Axes>(x)), largest) == 0);
  CHECK(worst_error(gr::to_host(gr::min<Axes>(x)), smallest) == 0);
  CHECK(worst_error(gr::to_host(gr::argmax<Axes>(x)), places) == 0);
}

template <class S, class Axes>
void check_threads() {
  workplace at;
  const auto x = normal<float, S>(at.ctx);
  const auto run = [&](int n) {
    threads t(at.ctx, n);
    return std::make_tuple(gr::sum<Axes>(x), gr::variance<Axes>(x), gr::argmax<Axes>(x), gr::min<Axes>(x));
  };
  const auto one = run(1), two = run(2);
  CHECK(same_bits(std::get<0>(one), std::get<0>(two)));
  CHECK(same_bits(std::get<1>(one), std::get<1>(two)));
  CHECK(same_bits(std::get<2>(one), std::get<2>(two)));
  CHECK(same_bits(std::get<3>(one), std::get<3>(two)));
}

template <class T>
bool same_number(T found, double wanted) {
  const double v = static_cast<double>(static_cast<float>(found));
  return v == wanted || (std::isnan(v) && std::isnan(wanted));
}

}  // namespace

TEST_CASE_TEMPLATE("reductions agree with plain loops at odd sizes, short and long", T, float, double) {
  check<T, gr::shape<1>, gr::axes<>>();
  check<T, gr::shape<19>, gr::axes<0>>();
  check<T, gr::shape<33, 67>, gr::axes<0>>();
  check<T, gr::shape<33, 67>, gr::axes<1>>();
  check<T, gr::shape<5, 7, 9, 3>, gr::axes<1, 3>>();
  check<T, gr::shape<5, 7, 9, 3>, gr::axes<0, 2>>();
  check<T, gr::shape<5, 1, 9, 3>, gr::axes<1>>();
}

TEST_CASE("reductions agree with plain loops where work is cut into chunks") {
  check<float, gr::shape<200003>, gr::axes<>>();
  check<float, gr::shape<30011, 5>, gr::axes<0>>();
  check<float, gr::shape<2, 40009>, gr::axes<1>>();
  check<float, gr::shape<1009, 3, 67>, gr::axes<0, 2>>();
}

TEST_CASE("reductions have the same bits on one thread and on two") {
  check_threads<gr::shape<200003>, gr::axes<>>();
  check_threads<gr::shape<3011, 50>, gr::axes<0>>();
  check_threads<gr::shape<300, 501>, gr::axes<1>>();
}

TEST_CASE("a sum of ten million tenths in float is right to the last places") {
  workplace at;
  const auto x = gr::full<float, gr::shape<10'000'000>>(at.ctx, 0.1f);
  CHECK(gr::item(gr::sum(x)) == doctest::Approx(1e7 * static_cast<double>(0.1f)).epsilon(3e-7));
  const auto far = gr::from_values<float, gr::shape<4>>(at.ctx, {10000, 10001, 10002, 10003});
  CHECK(gr::item(gr::variance(far)) == 1.25f);
}

TEST_CASE("of equal elements the first is the largest, and NaN is larger than all") {
  workplace at;
  auto x = gr::zeros<float, gr::shape<3, 50>>(at.ctx);
  CHECK(gr::item(gr::argmax(x)) == 0);
  x(1, 40) = x(2, 3) = 5;
  CHECK(gr::item(gr::argmax(x)) == 90);
  CHECK(gr::argmax<gr::axes<0>>(x)(40) == 1);
  x(2, 7) = std::numeric_limits<float>::quiet_NaN();
  CHECK(gr::item(gr::argmax(x)) == 107);
  CHECK(std::isnan(gr::item(gr::max(x))));
  CHECK(std::isnan(gr::max<gr::axes<0>>(x)(7)));
  CHECK(gr::max<gr::axes<0>>(x)(40) == 5);
}

TEST_CASE_TEMPLATE("the first of many equal extremes is found in rows of any length, and the first NaN among several",
                   T, float, double, std::int32_t, gr::bf16) {
  workplace at;
  const auto check = [&]<gr::index_t N>(std::integral_constant<gr::index_t, N>) {
    auto x = gr::cast<T>(integers<std::int32_t, gr::shape<4, N>>(at.ctx, -2, 2));
    if constexpr (gr::is_floating<T>)  // a row with several NaN, and one with one in its last place
      for (const gr::index_t i : {N + N / 2, N + N / 3, N + N / 2 + N / 5, 2 * N + N - 1})
        x.values()[i] = static_cast<T>(std::numeric_limits<float>::quiet_NaN());
    const auto largest = gr::max<gr::axes<1>>(x), smallest = gr::min<gr::axes<1>>(x);
    const auto at_largest = gr::argmax<gr::axes<1>>(x);
    for (gr::index_t r = 0; r < 4; ++r) {
      CAPTURE(N);
      CAPTURE(r);
      double most = static_cast<double>(static_cast<float>(x(r, 0))), least = most;
      std::int32_t place = 0;
      for (gr::index_t i = 1; i < N; ++i) {
        const double v = static_cast<double>(static_cast<float>(x(r, i)));
        if (v > most || (std::isnan(v) && !std::isnan(most))) most = v, place = static_cast<std::int32_t>(i);
        if (v < least || std::isnan(v)) least = v;
      }
      CHECK(at_largest(r) == place);
      CHECK(same_number(largest(r), most));
      CHECK(same_number(smallest(r), least));
    }
  };
  check(std::integral_constant<gr::index_t, 1>{});
  check(std::integral_constant<gr::index_t, 15>{});
  check(std::integral_constant<gr::index_t, 33>{});
  check(std::integral_constant<gr::index_t, 129>{});
  check(std::integral_constant<gr::index_t, 2507>{});
}

TEST_CASE("the first of equal extremes counts where work is cut into chunks, for the gradient too") {
  const auto check = []<class S, class Axes>(S, Axes) {
    workplace at;
    const auto x = integers<float, S>(at.ctx, -2, 2);
    std::vector<std::int32_t> largest;
    std::vector<float> smallest(S::size);
    for (const auto& g : groups<S, Axes>()) {
      const auto less = [&](std::size_t a, std::size_t b) { return x.values()[a] < x.values()[b]; };
      largest.push_back(static_cast<std::int32_t>(std::max_element(g.begin(), g.end(), less) - g.begin()));
      smallest[*std::min_element(g.begin(), g.end(), less)] = 1;
    }
    CHECK(gr::to_host(gr::argmax<Axes>(x)) == largest);
    const auto least = [](auto v) { return gr::min<Axes>(v); };
    const auto dy = gr::ones<float, gr::reduced_shape<S, Axes>>(at.ctx);
    CHECK(gr::to_host(std::get<0>(evaluate(at.ctx, least, dy, x).gradients)) == smallest);
  };
  check(gr::shape<200003>{}, gr::axes<>{});
  check(gr::shape<30011, 5>{}, gr::axes<0>{});
  check(gr::shape<1009, 3, 67>{}, gr::axes<0, 2>{});
}

TEST_CASE("integer tensors have sums and extremes, and halves are summed in float") {
  workplace at;
  const auto x = integers<std::int64_t, gr::shape<7, 30>>(at.ctx, -9, 9);
  std::int64_t total = 0;
  for (const auto v : x.values()) total += v;
  CHECK(gr::item(gr::sum(x)) == total);
  CHECK(gr::item(gr::max(x)) == *std::max_element(x.values().begin(), x.values().end()));
  const auto bytes = gr::full<std::uint8_t, gr::shape<3, 20>>(at.ctx, 9);
  CHECK(gr::sum<gr::axes<1>>(bytes)(2) == 180);
  CHECK(gr::item(gr::sum(bytes)) == 540);
  const auto most = gr::full<std::int32_t, gr::shape<300, 70>>(at.ctx, std::numeric_limits<std::int32_t>::max());
  CHECK(gr::item(gr::sum(most)) == std::int64_t{21000} * std::numeric_limits<std::int32_t>::max());
  CHECK(gr::sum<gr::axes<0>>(-most)(69) == std::int64_t{-300} * std::numeric_limits<std::int32_t>::max());
  const auto words = gr::full<std::uint16_t, gr::shape<5000, 130>>(at.ctx, 65535);
  CHECK(gr::item(gr::sum(words)) == std::int64_t{650000} * 65535);
  CHECK(gr::sum<gr::axes<0>>(words)(129) == std::int64_t{5000} * 65535);
  const auto truths = gr::from_values<bool, gr::shape<5>>(at.ctx, {true, true, true, false, true});
  static_assert(std::is_same_v<decltype(gr::sum(truths))::value_type, std::int64_t>);
  CHECK(gr::item(gr::sum(truths)) == 4);
  const auto halves = gr::full<gr::bf16, gr::shape<1000>>(at.ctx, gr::bf16(1.0f));
  CHECK(static_cast<float>(gr::item(gr::sum(halves))) == 1000.0f);
}

TEST_CASE("where nothing is recorded, max keeps no places and variance gives its means back") {
  workplace at;
  const auto x = normal<float, gr::shape<64, 100>>(at.ctx);
  const auto before = at.stats.all().live;
  const auto largest = gr::max<gr::axes<1>>(x);
  const auto spread = gr::variance<gr::axes<1>>(x);
  CHECK(at.stats.all().live == before + 2 * 64 * sizeof(float));
}
