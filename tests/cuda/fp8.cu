// Products in FP8 against numbers rounded on the host, and a GPT that learns with them.
#include <cmath>
#include <limits>

#include "device.hpp"
#include "gpt_cases.hpp"

namespace {

/// The numbers of a format with this many bits of mantissa, without the sign: codes 0 and up in order. E4M3 has no
/// infinity, and its last code is NaN; E5M2 ends with infinity and NaNs.
std::vector<double> magnitudes(int mantissa, int codes) {
  const int bias = mantissa == 3 ? 7 : 15;
  std::vector<double> all;
  for (int code = 0; code < codes; ++code) {
    const int exponent = code >> mantissa, part = code & ((1 << mantissa) - 1);
    all.push_back(exponent == 0 ? std::ldexp(part, 1 - bias - mantissa)
                                : std::ldexp((1 << mantissa) + part, exponent - bias - mantissa));
  }
  return all;
}
/// The nearest number of the format, with an even code if there are two.
double nearest(const std::vector<double>& numbers, double x) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < numbers.size(); ++i) {
    const double here = std::abs(numbers[i] - std::abs(x)), there = std::abs(numbers[best] - std::abs(x));
    if (here < there || (here == there && i % 2 == 0)) best = i;
  }
  return std::copysign(numbers[best], x);
}
/// Values as an operand of a product has them.
std::vector<double> rounded(const std::vector<gr::bf16>& x, bool gradient) {
  static const std::vector<double> e4m3 = magnitudes(3, 127), e5m2 = magnitudes(2, 124);
  float most = 0;
  for (const gr::bf16 v : x) most = std::max(most, std::abs(static_cast<float>(v)));
  const float scale = most > 0 ? (gradient ? 57344.0f : 448.0f) / most : 1.0f;
  std::vector<double> all;
  for (const gr::bf16 v : x)
    all.push_back(nearest(gradient ? e5m2 : e4m3, static_cast<double>(static_cast<float>(v) * scale)) /
                  static_cast<double>(scale));
  return all;
}
/// op(a) op(b) of row-major matrices.
std::vector<double> multiplied(const std::vector<double>& a, bool ta, const std::vector<double>& b, bool tb,
                               std::size_t m, std::size_t n, std::size_t k) {
  std::vector<double> c(m * n);
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t j = 0; j < n; ++j)
      for (std::size_t l = 0; l < k; ++l)
        c[i * n + j] += (ta ? a[l * m + i] : a[i * k + l]) * (tb ? b[j * k + l] : b[l * n + j]);
  return c;
}
template <class T>
std::vector<double> wide(const std::vector<T>& x) {
  std::vector<double> all;
  for (const T v : x) all.push_back(static_cast<double>(static_cast<float>(v)));
  return all;
}

template <bool TA, bool TB, gr::index_t M, gr::index_t N, gr::index_t K>
void multiplies(unsigned seed) {
  gpu g;
  runner<gr::cuda> r(g.ctx, seed);
  using A = std::conditional_t<TA, gr::shape<K, M>, gr::shape<M, K>>;
  using B = std::conditional_t<TB, gr::shape<N, K>, gr::shape<K, N>>;
  const auto a = r.random<gr::bf16>(M * K, -0.01, 0.02), b = r.random<gr::bf16>(K * N, -300, 100),
             dc = r.random<gr::bf16>(M * N, -1e-6, 1e-6);
  const auto on_gpu = [&](auto shape, const auto& values) {
    return gr::from_host<gr::bf16, decltype(shape)>(g.ctx, values.data());
  };
  using gr::cuda_kit::e4m3, gr::cuda_kit::e5m2, gr::cuda_kit::fp8_sums, gr::cuda_kit::product;
  const auto x = on_gpu(A{}, a);
  const auto y = on_gpu(B{}, b);
  const auto z = on_gpu(gr::shape<M, N>{}, dc);
  const auto expect = [&](const auto& c, const std::vector<double>& expected, double tolerance) {
    CHECK(relative_error(wide(gr::to_host(c)), expected) < tolerance);
  };
  for (int again = 0; again < 2; ++again) {
    auto c = gr::full<float, gr::shape<M, N>>(g.ctx, 2.0f);
    gr::cuda_kit::gemm(g.ctx, product<fp8_sums<e4m3, e4m3>, gr::bf16, float, TA, TB, M, N, K>{}, x.data(), y.data(),
                       c.data(), again == 1);
    auto expected = multiplied(rounded(a, false), TA, rounded(b, false), TB, M, N, K);
    if (again == 1)
      for (double& v : expected) v += 2;
    expect(c, expected, 1e-6);
  }
  // The gradient of a = c op(b)^T, where a was not transposed, and that of b.
  if constexpr (!TA) {
    auto da = gr::empty<gr::bf16, A>(g.ctx, gr::category::temporary);
    gr::cuda_kit::gemm(g.ctx, product<fp8_sums<e5m2, e4m3>, gr::bf16, gr::bf16, false, !TB, M, K, N>{}, z.data(),
                       y.data(), da.data(), false);
    expect(da, multiplied(rounded(dc, true), false, rounded(b, false), !TB, M, K, N), 3e-3);
  }
  if constexpr (!TB) {
    auto db = gr::empty<float, B>(g.ctx, gr::category::temporary);
    gr::cuda_kit::gemm(g.ctx, product<fp8_sums<e4m3, e5m2>, gr::bf16, float, !TA, false, K, N, M>{}, x.data(), z.data(),
                       db.data(), false);
    expect(db, multiplied(rounded(a, false), !TA, rounded(dc, true), false, K, N, M), 1e-6);
  }
}

/// What a linear layer and its gradients are under policy P.
template <class P, gr::index_t Rows, gr::index_t In, gr::index_t Out>
std::vector<std::vector<double>> linear_layer(unsigned seed, double values = 1) {
  gpu g;
  runner<gr::cuda> r(g.ctx, seed);
  using X = gr::on<gr::cuda, P>;
  gr::param<X, In, Out> w;
  gr::param<X, Out> b;
  w.set(gr::from_host<float, gr::shape<In, Out>>(g.ctx, r.random<float>(In * Out).data(), gr::category::parameter));
  b.set(gr::from_host<float, gr::shape<Out>>(g.ctx, r.random<float>(Out).data(), gr::category::parameter));
  gr::tape tape{g.ctx};
  auto x = tape.variable(
      gr::from_host<gr::bf16, gr::shape<Rows, In>>(g.ctx, r.random<gr::bf16>(Rows * In, -values, values).data()));
  auto y = gr::linear(x, w, b);
  std::vector<std::vector<double>> all{wide(gr::to_host(y.value()))};
  gr::backward(gr::mean(y * y));
  all.push_back(wide(gr::to_host(x.gradient())));
  all.push_back(wide(gr::to_host(w.gradient())));
  all.push_back(wide(gr::to_host(b.gradient())));
  return all;
}

/// y = apply(x, w, b) with gradients of sum(y * g), against products of what the formats leave of x, w and g.
template <class Apply>
void applies(unsigned seed, const Apply& apply) {
  constexpr gr::index_t rows = 48, in = 64, out = 32;
  gpu g;
  runner<gr::cuda> r(g.ctx, seed);
  using X = gr::on<gr::cuda, gr::fp8_mixed>;
  const auto x = r.random<gr::bf16>(rows * in), w = r.random<gr::bf16>(in * out), dy = r.random<gr::bf16>(rows * out);
  gr::param<X, in, out> weight;
  gr::param<X, out> bias;
  std::vector<float> of_weight(w.size());
  for (std::size_t i = 0; i < w.size(); ++i) of_weight[i] = static_cast<float>(w[i]);
  weight.set(gr::from_host<float, gr::shape<in, out>>(g.ctx, of_weight.data(), gr::category::parameter));
  bias.set(gr::zeros<float, gr::shape<out>>(g.ctx, gr::category::parameter));
  gr::tape tape{g.ctx};
  auto input = tape.variable(gr::from_host<gr::bf16, gr::shape<rows, in>>(g.ctx, x.data()));
  auto y = apply(input, weight, bias);
  const auto close = [](const auto& found, const std::vector<double>& expected, double tolerance) {
    CHECK(relative_error(wide(gr::to_host(found)), expected) < tolerance);
  };
  const auto values = rounded(x, false), weights = rounded(w, false), gradient = rounded(dy, true);
  close(y.value(), multiplied(values, false, weights, false, rows, out, in), 3e-3);
  gr::backward(gr::sum(y * gr::from_host<gr::bf16, gr::shape<rows, out>>(g.ctx, dy.data())));
  close(input.gradient(), multiplied(gradient, false, weights, true, rows, in, out), 3e-3);
  close(weight.gradient(), multiplied(values, true, gradient, false, in, out, rows), 1e-6);
}

}  // namespace

TEST_CASE("products in FP8 are those of their operands, scaled and rounded: values to E4M3, gradients to E5M2") {
  if (no_gpu()) return;
  const unsigned seed = gradus_test::fresh_seed();
  CAPTURE(seed);
  multiplies<false, false, 32, 48, 16>(seed);
  multiplies<false, true, 80, 16, 144>(seed);
  multiplies<true, false, 16, 80, 112>(seed);
  multiplies<false, false, 208, 96, 64>(seed);
}

TEST_CASE("linear and matmul in fp8_mixed round values to E4M3 and the gradients that come back to E5M2") {
  if (no_gpu()) return;
  const unsigned seed = gradus_test::fresh_seed();
  CAPTURE(seed);
  applies(seed, [](const auto& x, const auto& w, const auto& b) { return gr::linear(x, w, b); });
  applies(seed, [](const auto& x, const auto& w, const auto&) { return gr::matmul(x, w); });
}

TEST_CASE(
    "a linear layer in fp8_mixed is near that in bf16_mixed, and the same where its extents are not multiples of 16 or "
    "its input is 0") {
  if (no_gpu()) return;
  const unsigned seed = gradus_test::fresh_seed();
  CAPTURE(seed);
  const auto near = linear_layer<gr::bf16_mixed, 48, 64, 32>(seed),
             found = linear_layer<gr::fp8_mixed, 48, 64, 32>(seed);
  for (std::size_t i = 0; i < near.size(); ++i) {
    CAPTURE(i);
    CHECK(relative_error(found[i], near[i]) < 0.08);
    CHECK(relative_error(found[i], near[i]) > 1e-3);
  }
  CHECK(linear_layer<gr::fp8_mixed, 48, 60, 32>(seed) == linear_layer<gr::bf16_mixed, 48, 60, 32>(seed));
  CHECK(linear_layer<gr::precision<float, gr::f16, gr::fp8_products>, 48, 64, 32>(seed) ==
        linear_layer<gr::fp16_mixed, 48, 64, 32>(seed));
  CHECK(linear_layer<gr::fp8_mixed, 48, 64, 32>(seed, 0)[0] == linear_layer<gr::bf16_mixed, 48, 64, 32>(seed, 0)[0]);
}

TEST_CASE("products in FP8 of what is tiny are finite, and of what is not finite are not") {
  if (no_gpu()) return;
  gpu g;
  using gr::cuda_kit::e4m3, gr::cuda_kit::e5m2, gr::cuda_kit::fp8_sums, gr::cuda_kit::product;
  const auto sum_of = [&](float first, float others) {
    std::vector<gr::bf16> values(16 * 16, gr::bf16(others));
    values[0] = gr::bf16(first);
    const auto a = gr::from_host<gr::bf16, gr::shape<16, 16>>(g.ctx, values.data());
    const auto b = gr::full<gr::bf16, gr::shape<16, 16>>(g.ctx, gr::bf16(2.0f));
    auto c = gr::empty<float, gr::shape<16, 16>>(g.ctx, gr::category::temporary);
    gr::cuda_kit::gemm(g.ctx, product<fp8_sums<e5m2, e4m3>, gr::bf16, float, false, false, 16, 16, 16>{}, a.data(),
                       b.data(), c.data(), false);
    return gr::to_host(c)[0];
  };
  CHECK(sum_of(1e-37f, 1e-37f) ==
        doctest::Approx(32 * static_cast<double>(static_cast<float>(gr::bf16(1e-37f)))).epsilon(0.2));
  CHECK(sum_of(0, 0) == 0);
  CHECK_FALSE(std::isfinite(sum_of(std::numeric_limits<float>::infinity(), 1)));
  CHECK_FALSE(std::isfinite(sum_of(std::numeric_limits<float>::quiet_NaN(), 1)));
}

TEST_CASE("operands of more rows than a grid has blocks along its second dimension are rounded, too") {
  constexpr gr::index_t rows = (gr::index_t{1} << 22) + 16;
  constexpr gr::index_t tiles = gr::cuda_kit::fp8_tiles(rows);
  static_assert(tiles == 65537 && gr::cuda_kit::fp8_tiles(100) == 2 && gr::cuda_kit::fp8_tiles(130) == 3);
  if (no_gpu()) return;
  gpu g;
  using E = gr::cuda_kit::e4m3;
  const auto x = gr::full<gr::bf16, gr::shape<rows, 16>>(g.ctx, gr::bf16(1.0f));
  const auto most = gr::full<float, gr::shape<1>>(g.ctx, 1.0f);
  auto codes = gr::empty<std::uint8_t, gr::shape<rows, 16>>(g.ctx, gr::category::temporary);
  auto unscale = gr::empty<float, gr::shape<1>>(g.ctx, gr::category::temporary);
  gr::launch(g.ctx, &gr::cuda_kit::round_to_fp8_kernel<E, false, gr::bf16>, static_cast<unsigned>(tiles),
             gr::cuda_kit::block_threads, x.data(), reinterpret_cast<const unsigned*>(most.data()), codes.data(),
             unscale.data(), rows, gr::index_t{16}, gr::cuda_kit::divisor<unsigned>(1));
  CHECK(gr::to_host(unscale)[0] == 1.0f / 448);
  CHECK(gr::to_host(codes).back() == 0x7E);  // 448
}

TEST_CASE("a GPT learns in fp8_mixed nearly as in bf16_mixed, and twice the same") {
  if (no_gpu()) return;
  const unsigned seed = gradus_test::fresh_seed();
  CAPTURE(seed);
  const auto losses = [&](auto policy) {
    gpu g;
    gpt_training<decltype(policy), gr::cuda> t(g.ctx, g.ctx);
    runner<gr::cuda> r(g.ctx, seed);
    std::vector<double> all;
    for (int step = 0; step < 4; ++step) {
      t.load(r);
      t.step();
      for (const float loss : gr::to_host(t.losses)) all.push_back(static_cast<double>(loss));
    }
    return all;
  };
  const auto fp8 = losses(gr::fp8_mixed{});
  CHECK(relative_error(fp8, losses(gr::bf16_mixed{})) < 1e-2);
  CHECK(fp8 != losses(gr::bf16_mixed{}));
  CHECK(fp8 == losses(gr::fp8_mixed{}));
}
