#include <gradus/train/spike_filter.hpp>

#include <doctest/doctest.h>

#include <limits>
#include <string>
#include <vector>

namespace gr = gradus;

namespace {

// A filter that has seen `count` norms of 1 and 3 by turns: their mean is 2, their deviation 1.
gr::spike_filter after(int count) {
  gr::spike_filter f;
  for (int i = 0; i < count; ++i) CHECK_FALSE(f.takes(i % 2 == 0 ? 1 : 3, 1e9));
  return f;
}

}  // namespace

TEST_CASE("a norm is a spike if it is more than the limit of deviations above the mean, once enough were seen") {
  gr::spike_filter f = after(400);
  CHECK(f.mean() == doctest::Approx(2).epsilon(0.02));
  CHECK_FALSE(f.takes(5.8, 4));
  CHECK(f.score == doctest::Approx(3.8).epsilon(0.03));
  f = after(400);
  CHECK(f.takes(6.2, 4));
  CHECK(f.spikes == 1);
  // It counts as the limit: one that is far off does not raise the mean without bound.
  f = after(400);
  const double before = f.mean();
  CHECK(f.takes(1e30, 4));
  CHECK(f.mean() - before == doctest::Approx(0.02 * 4).epsilon(0.05));
  f = after(gr::spike_filter::least - 1);
  CHECK_FALSE(f.takes(1e9, 4));
  f = after(gr::spike_filter::least);
  CHECK(f.takes(1e9, 4));
}

TEST_CASE("a norm that is not finite is a spike and does not count, unless a loss scale looks at it") {
  for (const double bad : {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    gr::spike_filter f = after(100);
    const double mean = f.mean();
    CHECK(f.takes(bad, 4));
    CHECK_FALSE(f.takes(bad, 4, /*overflows=*/true));
    CHECK(f.mean() == mean);
    CHECK(f.count == 100);
    CHECK(f.spikes == 1);
  }
}

TEST_CASE("what decides about later norms is saved by its name") {
  gr::spike_filter from = after(40), to;
  std::vector<std::string> names;
  std::vector<double> values;
  from.for_each_number([&](const char* name, auto& number) {
    names.emplace_back(name);
    values.push_back(static_cast<double>(number));
  });
  CHECK(names == std::vector<std::string>{"norm_sum", "norm_squares", "norm_weight", "norm_count", "norm_spikes"});
  std::size_t i = 0;
  to.for_each_number([&]<class T>(const char*, T& number) { number = static_cast<T>(values[i++]); });
  for (const double norm : {2.0, 7.5, 2.5}) CHECK(from.takes(norm, 3) == to.takes(norm, 3));
  CHECK(from.mean() == to.mean());
}
