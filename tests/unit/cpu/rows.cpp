#include <doctest/doctest.h>

#include <gradus/cpu/rows.hpp>
#include <gradus/memory/host_resource.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace gr = gradus;
namespace kit = gr::cpu_kit;

namespace {

// Whole numbers, which every type holds.
template <class S>
std::vector<S> numbers(gr::index_t n) {
  std::vector<S> x;
  for (gr::index_t i = 0; i < n; ++i) x.push_back(static_cast<S>(static_cast<float>((i * 7 + 3) % 23) - 11.0f));
  return x;
}

}  // namespace

TEST_CASE_TEMPLATE("the packs of a row cover it, whatever its length, and touch nothing behind it", S, float, double,
                   gr::bf16, gr::f16) {
  using C = gr::compute_type<S>;
  for (gr::index_t n = 1; n <= 5 * gr::lanes<C> + 1; ++n) {
    CAPTURE(n);
    const auto x = numbers<S>(n);  // its end is that of its memory, which the address sanitizer watches
    std::vector<S> y(n + gr::lanes<C>, static_cast<S>(99.0f));
    for (const bool accumulate : {false, true}) {
      CAPTURE(accumulate);
      kit::for_packs<C>(n, [&](gr::index_t i, auto which) {
        kit::put(kit::load<C>(x.data() + i, which), y.data() + i, accumulate, which);
      });
      for (gr::index_t i = 0; i < n; ++i)
        CHECK(static_cast<float>(y[i]) == (accumulate ? 2.0f : 1.0f) * static_cast<float>(x[i]));
      for (gr::index_t i = n; i < y.size(); ++i) CHECK(static_cast<float>(y[i]) == 99.0f);
    }
  }
}

TEST_CASE_TEMPLATE("sums and the largest of a row are those of its elements", S, float, double, gr::bf16, gr::f16) {
  using C = gr::compute_type<S>;
  for (gr::index_t n = 1; n <= 9 * gr::lanes<C> + 1; ++n) {
    CAPTURE(n);
    const auto x = numbers<S>(n);
    C sum = 0, largest = -std::numeric_limits<C>::infinity();
    for (const S v : x) {
      sum += static_cast<C>(v);
      largest = std::max(largest, static_cast<C>(v));
    }
    const auto element = [&](gr::index_t i, auto which) { return kit::load<C>(x.data() + i, which); };
    CHECK(kit::sum_packs<C, 1>(n, element) == sum);
    CHECK(kit::sum_packs<C, 2>(n, element) == sum);
    CHECK(kit::sum_packs<C, 4>(n, element) == sum);
    CHECK(kit::largest_of<C>(x.data(), n) == largest);
  }
}

TEST_CASE("NaN is not the largest, and a row of NaN has none") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> x(37, nan);
  CHECK(kit::largest_of<float>(x.data(), x.size()) == -std::numeric_limits<float>::infinity());
  x[36] = -5;
  CHECK(kit::largest_of<float>(x.data(), x.size()) == -5);
}

TEST_CASE("lanes outside a row take the value that they are given") {
  float found[gr::lanes<float>];
  for (gr::index_t n = 1; n < gr::lanes<float>; ++n) {
    kit::inside_or(gr::pack<float>(2), 7.0f, kit::first_lanes{n}).store(found);
    for (gr::index_t i = 0; i < gr::lanes<float>; ++i) CHECK(found[i] == (i < n ? 2.0f : 7.0f));
  }
}

TEST_CASE("each row is visited once, on any number of threads") {
  for (const int threads : {1, 3}) {
    gr::stream stream;
    gr::set_thread_count(stream, threads);
    gr::host_resource heap;
    gr::context<gr::cpu> ctx{stream, heap};
    for (const gr::index_t columns : {1u, 10u, 5000u}) {
      std::vector<int> visits(1001);
      kit::for_rows(ctx, visits.size(), columns, 4096, [&](gr::index_t r) { ++visits[r]; });
      CHECK(std::all_of(visits.begin(), visits.end(), [](int v) { return v == 1; }));
    }
  }
}
