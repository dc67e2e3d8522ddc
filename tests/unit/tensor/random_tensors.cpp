#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <gradus/gradus.hpp>

namespace gr = gradus;

namespace {
struct bench {
  gr::stream s;
  gr::host_resource heap;
  gr::context<gr::cpu> ctx{s, heap};
};
constexpr gr::random_key key{11, 2, 3};
using many = gr::shape<300, 1001>;
}  // namespace

TEST_CASE("random tensors are the same on any number of threads") {
  bench b;
  gr::set_thread_count(b.s, 1);
  const auto u = gr::to_host(gr::uniform<float, many>(b.ctx, key));
  const auto z = gr::to_host(gr::normal<float, many>(b.ctx, key));
  gr::set_thread_count(b.s, 3);
  CHECK(gr::to_host(gr::uniform<float, many>(b.ctx, key)) == u);
  CHECK(gr::to_host(gr::normal<float, many>(b.ctx, key)) == z);
}

TEST_CASE("element i depends on the key and on i, not on the shape around it") {
  bench b;
  const auto shorter = gr::to_host(gr::normal<float, gr::shape<7>>(b.ctx, key));
  const auto longer = gr::to_host(gr::normal<float, gr::shape<3, 5>>(b.ctx, key));
  for (std::size_t i = 0; i < shorter.size(); ++i) CHECK(shorter[i] == longer[i]);
  CHECK(gr::to_host(gr::normal<float, gr::shape<7>>(b.ctx, {11, 2, 4})) != shorter);
}

TEST_CASE("element i of a large tensor is a word of group i / 4, wherever threads take over") {
  bench b;
  for (const int n : {1, 3}) {
    gr::set_thread_count(b.s, n);
    const auto x = gr::uniform<float, many>(b.ctx, key);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < many::size; ++i) wrong += x.values()[i] != gr::uniform_float(key.words(i / 4)[i % 4]);
    CHECK(wrong == 0);
  }
}

TEST_CASE("uniform tensors stay in their range and have its mean and variance") {
  bench b;
  const auto x = gr::uniform<float, many>(b.ctx, key, -3, 5);
  double sum = 0, squares = 0;
  bool inside = true;
  for (const float v : x.values()) {
    inside = inside && v >= -3 && v < 5;
    sum += static_cast<double>(v);
    squares += static_cast<double>(v) * static_cast<double>(v);
  }
  const double n = many::size, mean = sum / n;
  CHECK(inside);
  CHECK(mean == doctest::Approx(1).epsilon(0.02));
  CHECK(squares / n - mean * mean == doctest::Approx(64.0 / 12).epsilon(0.02));
}

TEST_CASE("normal tensors have the mean and deviation asked for, and agree between element types up to rounding") {
  bench b;
  const auto x = gr::normal<double, many>(b.ctx, key, 2, 0.5);
  const auto y = gr::normal<gr::bf16, many>(b.ctx, key, 2, 0.5);
  double sum = 0, squares = 0, apart = 0;
  for (std::size_t i = 0; i < many::size; ++i) {
    const double v = x.values()[i];
    sum += v;
    squares += v * v;
    apart =
        std::max(apart, std::abs(v - static_cast<double>(static_cast<float>(y.values()[i]))) / (std::abs(v) + 1e-6));
  }
  const double n = many::size, mean = sum / n;
  CHECK(mean == doctest::Approx(2).epsilon(0.005));
  CHECK(std::sqrt(squares / n - mean * mean) == doctest::Approx(0.5).epsilon(0.01));
  CHECK(apart < 1.0 / 256);
}

TEST_CASE("bernoulli tensors are 1 as often as asked for, in any element type") {
  bench b;
  const auto x = gr::bernoulli<std::uint8_t, many>(b.ctx, key, 0.3);
  double ones = 0;
  bool only = true;
  for (const std::uint8_t v : x.values()) {
    ones += v;
    only = only && v <= 1;
  }
  CHECK(only);
  CHECK(ones / many::size == doctest::Approx(0.3).epsilon(0.02));
  const auto never = gr::bernoulli<bool, gr::shape<50>>(b.ctx, key, 0);
  const auto always = gr::bernoulli<float, gr::shape<50>>(b.ctx, key, 1);
  for (const bool v : never.values()) CHECK_FALSE(v);
  for (const float v : always.values()) CHECK(v == 1);
}

namespace {
constexpr std::size_t drawn_on_meta() {
  gr::meta_stream s;
  gr::accounting account;
  gr::context ctx{s, account};
  { const auto x = gr::normal<float, gr::shape<8, 8>>(ctx, {1, 2, 3}); }
  return account.live_bytes() == 0 ? account.peak_bytes() : 0;
}
static_assert(drawn_on_meta() == 256);
}  // namespace

TEST_CASE("on meta a random tensor is its bytes and no more") { CHECK(drawn_on_meta() == 256); }
