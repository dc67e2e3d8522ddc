#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <tuple>
#include <vector>

#include "op_case.hpp"
#include "reduce.hpp"

namespace gr = gradus;
using namespace gradus_test;

namespace {

using index_list = std::vector<std::size_t>;

// Elements of x that become each output.
template <class S, class Axes>
std::vector<index_list> groups() {
  index_list axes;
  for (std::size_t a = 0; a < S::rank; ++a)
    if (Axes::contains(a, S::rank)) axes.push_back(a);
  return reference::groups({S::extents.begin(), S::extents.end()}, axes);
}

// Bit for bit, and NaN where NaN is wanted.
void compare_extremes(const values& largest, const values& smallest, const values& places, const values& x,
                      const std::vector<index_list>& groups) {
  const auto same = [](double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); };
  for (std::size_t i = 0; i < groups.size(); ++i) {
    CAPTURE(i);
    const std::size_t place = reference::largest_of(x, groups[i]);
    CHECK(places[i] == static_cast<double>(place));
    CHECK(same(largest[i], x[groups[i][place]]));
    CHECK(same(smallest[i], x[groups[i][reference::smallest_of(x, groups[i])]]));
  }
}

}  // namespace

TEST_CASE("reductions, products and running sums are what they are defined to be") {
  truth t;
  reduce_table(t);
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
  CHECK(gr::argmax<0>(x)(40) == 1);
  x(2, 7) = std::numeric_limits<float>::quiet_NaN();
  CHECK(gr::item(gr::argmax(x)) == 107);
  CHECK(std::isnan(gr::item(gr::max(x))));
  CHECK(std::isnan(gr::max<0>(x)(7)));
  CHECK(gr::max<0>(x)(40) == 5);
}

TEST_CASE_TEMPLATE("the first of many equal extremes is found in rows of any length, and the first NaN among several",
                   T, float, double, std::int32_t, gr::bf16) {
  workplace at;
  const auto check = [&]<gr::index_t N>(std::integral_constant<gr::index_t, N>) {
    auto x = gr::cast<T>(integers<std::int32_t, gr::shape<4, N>>(at.ctx, -2, 2));
    if constexpr (gr::is_floating<T>)  // a row with several NaN, and one with one in its last place
      for (const gr::index_t i : {N + N / 2, N + N / 3, N + N / 2 + N / 5, 2 * N + N - 1})
        x.values()[i] = static_cast<T>(std::numeric_limits<float>::quiet_NaN());
    CAPTURE(N);
    compare_extremes(numbers(gr::max<1>(x)), numbers(gr::min<1>(x)), numbers(gr::argmax<1>(x)), numbers(x),
                     reference::groups({4, N}, {1}));
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
  CHECK(gr::sum<1>(bytes)(2) == 180);
  CHECK(gr::item(gr::sum(bytes)) == 540);
  const auto most = gr::full<std::int32_t, gr::shape<300, 70>>(at.ctx, std::numeric_limits<std::int32_t>::max());
  CHECK(gr::item(gr::sum(most)) == std::int64_t{21000} * std::numeric_limits<std::int32_t>::max());
  CHECK(gr::sum<0>(-most)(69) == std::int64_t{-300} * std::numeric_limits<std::int32_t>::max());
  const auto words = gr::full<std::uint16_t, gr::shape<5000, 130>>(at.ctx, 65535);
  CHECK(gr::item(gr::sum(words)) == std::int64_t{650000} * 65535);
  CHECK(gr::sum<0>(words)(129) == std::int64_t{5000} * 65535);
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
  const auto largest = gr::max<1>(x);
  const auto spread = gr::variance<1>(x);
  CHECK(at.stats.all().live == before + 2 * 64 * sizeof(float));
}

TEST_CASE("the gradient of a sum reaches every element of rows that several tasks share") {
  workplace at;
  gr::tape tape(at.ctx);
  const auto x = tape.variable(normal<float, gr::shape<3, 2500>>(at.ctx));
  const auto [of_rows] = gr::gradients(gr::sum(gr::sum<1>(x)), x);
  CHECK(numbers(of_rows) == values(7500, 1.0));
  const auto y = tape.variable(normal<float, gr::shape<5003>>(at.ctx));
  const auto [of_all] = gr::gradients(gr::sum(y), y);
  CHECK(numbers(of_all) == values(5003, 1.0));
}

TEST_CASE("a mean keeps its gradient when it is broadcast back") {
  workplace at;
  const auto r = gr::gradcheck(
      [](auto v) { return (v - gr::mean<1>(v, gr::keep_axes)) * gr::rsqrt(gr::variance<1>(v, gr::keep_axes) + 1e-5); },
      normal<double, gr::shape<3, 19>>(at.ctx));
  CHECK_MESSAGE(r.ok, r.message);
}

TEST_CASE("gradients of products and deviations are right where there are zeros") {
  workplace at;
  auto x = normal<double, gr::shape<3, 2, 19>>(at.ctx);
  x(0, 1, 3) = x(1, 0, 0) = x(1, 0, 18) = 0;
  const auto check = [&](const auto& f) {
    const auto r = gr::gradcheck(f, x);
    CHECK_MESSAGE(r.ok, r.message);
  };
  check([](auto v) { return gr::prod<-1>(v, gr::keep_axes); });
  check([](auto v) { return gr::prod<0>(v); });
  check([](auto v) { return gr::standard_deviation<0, 2>(v, gr::keep_axes); });
}
