#include <doctest/doctest.h>

#include <gradus/cpu/gemm.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <initializer_list>
#include <limits>
#include <random>
#include <vector>

namespace gr = gradus;

namespace {

using sizes = std::initializer_list<std::size_t>;

struct problem {
  std::size_t m, n, k;
  bool transpose_a = false, transpose_b = false;
  bool add = false, with_bias = false;
  std::size_t gap = 0;  // elements between rows, in all three matrices

  std::size_t lda() const { return (transpose_a ? m : k) + gap; }
  std::size_t ldb() const { return (transpose_b ? k : n) + 2 * gap; }
  std::size_t ldc() const { return n + 3 * gap; }
};

// Small whole numbers: every sum is exact, in whatever order it is taken, so results are compared with ==.
template <class T>
std::vector<T> whole_numbers(std::size_t count, unsigned seed) {
  std::mt19937 bits(seed);
  std::vector<T> values(count);
  for (T& v : values) v = static_cast<T>(static_cast<int>(bits() % 9) - 4);
  return values;
}

template <class T>
struct operands {
  std::vector<T> a, b, c, bias;

  // What a product must not read is NaN: gaps, and C where it is only written.
  explicit operands(const problem& p)
      : a(whole_numbers<T>((p.transpose_a ? p.k : p.m) * p.lda(), 1)),
        b(whole_numbers<T>((p.transpose_b ? p.n : p.k) * p.ldb(), 2)),
        c(whole_numbers<T>(p.m * p.ldc(), 3)),
        bias(whole_numbers<T>(p.n, 4)) {
    poison(a, p.lda(), p.lda() - p.gap);
    poison(b, p.ldb(), p.ldb() - 2 * p.gap);
    poison(c, p.ldc(), p.add ? p.n : 0);
  }
  static void poison(std::vector<T>& values, std::size_t stride, std::size_t from) {
    for (std::size_t i = 0; i < values.size(); ++i)
      if (i % stride >= from) values[i] = std::numeric_limits<T>::quiet_NaN();
  }
};

// Elements in which `found` is not the plain product, or that were written outside of C.
template <class T>
std::size_t mistakes(const problem& p, const operands<T>& x, const std::vector<T>& found) {
  std::size_t wrong = 0;
  std::vector<double> row(p.n);
  for (std::size_t i = 0; i < p.m; ++i) {
    for (std::size_t j = 0; j < p.n; ++j)
      row[j] = static_cast<double>(p.with_bias ? x.bias[j] : p.add ? x.c[i * p.ldc() + j] : T(0));
    for (std::size_t q = 0; q < p.k; ++q) {
      const auto left = static_cast<double>(p.transpose_a ? x.a[q * p.lda() + i] : x.a[i * p.lda() + q]);
      for (std::size_t j = 0; j < p.n; ++j)
        row[j] += left * static_cast<double>(p.transpose_b ? x.b[j * p.ldb() + q] : x.b[q * p.ldb() + j]);
    }
    for (std::size_t j = 0; j < p.n; ++j) wrong += static_cast<double>(found[i * p.ldc() + j]) != row[j];
    for (std::size_t j = p.n; j < p.ldc(); ++j) wrong += found[i * p.ldc() + j] == found[i * p.ldc() + j];
  }
  return wrong;
}

template <class T, class Kernel = gr::cpu_kit::packed_gemm<T>>
std::size_t mistakes(const problem& p) {
  const operands<T> x(p);
  std::vector<T> c = x.c;
  gr::cpu_kit::gemm<T, Kernel>(p.transpose_a, p.transpose_b, p.m, p.n, p.k, x.a.data(), p.lda(), x.b.data(), p.ldb(),
                               p.add ? T(1) : T(0), c.data(), p.ldc(), p.with_bias ? x.bias.data() : nullptr);
  return mistakes(p, x, c);
}

// Sizes about those at which the kernel turns to another strip, panel or block, each under every flag.
template <class T, class Kernel = gr::cpu_kit::packed_gemm<T>>
std::size_t mistakes_about_edges() {
  std::size_t wrong = 0;
  unsigned flags = 0;
  for (std::size_t m : sizes{1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 14, 15, 28, 141})
    for (std::size_t n : sizes{1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 67})
      for (std::size_t k : sizes{1, 8, 15, 16, 17, 50, 127, 128, 129, 256, 257}) {
        problem p{m, n, k};
        flags = flags * 5 + 3;  // walks through all flags
        p.transpose_a = flags & 1U << 8;
        p.transpose_b = flags & 1U << 9;
        p.add = flags & 1U << 10;
        p.with_bias = (flags & 3U << 11) == 0;
        p.gap = flags & 1U << 13 ? 3 : 0;
        wrong += mistakes<T, Kernel>(p);
      }
  return wrong;
}

std::vector<float> random_numbers(std::size_t count, unsigned seed) {
  std::mt19937 bits(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> values(count);
  for (float& v : values) v = uniform(bits);
  return values;
}

}  // namespace

TEST_CASE("products of all sizes about the edges of strips and panels are exact on whole numbers") {
  CHECK(mistakes_about_edges<float>() == 0);
  CHECK(mistakes_about_edges<double>() == 0);
}

TEST_CASE("so are those of the kernels for other processors") {
  CHECK(mistakes_about_edges<float, gr::cpu_kit::packed_gemm<float, 6, 2, 32>>() == 0);
  CHECK(mistakes_about_edges<double, gr::cpu_kit::packed_gemm<double, 6, 2, 32>>() == 0);
  CHECK(mistakes_about_edges<float, gr::cpu_kit::packed_gemm<float, 6, 2, 16>>() == 0);
  CHECK(mistakes_about_edges<double, gr::cpu_kit::packed_gemm<double, 14, 2, 64>>() == 0);
}

TEST_CASE_TEMPLATE("each transposition, sum and bias is right, over NaN where nothing may be read", T, float, double) {
  for (bool transpose_a : {false, true})
    for (bool transpose_b : {false, true})
      for (bool add : {false, true})
        for (bool with_bias : {false, true})
          for (std::size_t gap : sizes{0, 5}) {
            CAPTURE(transpose_a);
            CAPTURE(transpose_b);
            CAPTURE(add);
            CAPTURE(with_bias);
            CAPTURE(gap);
            CHECK(mistakes<T>({45, 71, 530, transpose_a, transpose_b, add, with_bias, gap}) == 0);
            CHECK(mistakes<T>({145, 71, 530, transpose_a, transpose_b, add, with_bias, gap}) ==
                  0);  // no longer few rows
          }
}

TEST_CASE_TEMPLATE("products of several blocks and tiles are right", T, float, double) {
  for (bool transposed : {false, true}) {
    CHECK(mistakes<T>({5, 3 * 767, 257, transposed, !transposed, true}) == 0);
    CHECK(mistakes<T>({3, 4 * 768 + 1, 256, transposed, transposed}) == 0);
    CHECK(mistakes<T>({2, 8195, 40, transposed, !transposed, false, true}) == 0);
    CHECK(mistakes<T>({2500, 33, 65, transposed, transposed, true}) == 0);
    CHECK(mistakes<T>({145, 4 * 768 + 1, 256, transposed, !transposed, true}) == 0);
  }
}

TEST_CASE("an empty sum leaves the bias, C or zeros") {
  CHECK(mistakes<float>({3, 40, 0}) == 0);
  CHECK(mistakes<float>({3, 40, 0, false, false, true}) == 0);
  CHECK(mistakes<float>({3, 40, 0, true, true, false, true}) == 0);
}

TEST_CASE("products of real numbers are as near to the exact ones as their length lets them") {
  const std::size_t m = 37, n = 70, k = 900;
  const std::vector<float> a = random_numbers(m * k, 1);
  const std::vector<float> b = random_numbers(k * n, 2);
  std::vector<float> c(m * n);
  gr::cpu_kit::gemm<float>(false, false, m, n, k, a.data(), k, b.data(), n, 0, c.data(), n);
  double worst = 0;
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t j = 0; j < n; ++j) {
      double exact = 0;
      for (std::size_t q = 0; q < k; ++q)
        exact += static_cast<double>(a[i * k + q]) * static_cast<double>(b[q * n + j]);
      worst = std::max(worst, std::abs(static_cast<double>(c[i * n + j]) - exact));
    }
  // An addition rounds by up to 2^-24 of a partial sum, here about 10, and k of them add up as sqrt(k) does: 2e-5, and twice
  // that where it comes worst.
  CHECK(worst < 4e-5);
}

TEST_CASE("the bits of a product do not depend on the number of threads") {
  const int threads = gr::thread_count();
  const std::size_t n = 203, k = 517;
  for (std::size_t m : sizes{3, 37, 301}) {
    CAPTURE(m);
    const std::vector<float> a = random_numbers(m * k, 1);
    const std::vector<float> b = random_numbers(k * n, 2);
    std::vector<float> c[3];
    for (int t = 0; t < 3; ++t) {
      gr::set_thread_count(t + 1);
      c[t].resize(m * n);
      gr::cpu_kit::gemm<float>(true, false, m, n, k, a.data(), m, b.data(), n, 0, c[t].data(), n);
    }
    gr::set_thread_count(threads);
    CHECK(c[0] == c[1]);
    CHECK(c[0] == c[2]);
  }
}

TEST_CASE("a row has the same bits in a product of few rows and in one of many") {
  const std::size_t many = 600, n = 203, k = 517;
  const std::vector<float> a = random_numbers(many * k, 1);
  const std::vector<float> b = random_numbers(k * n, 2);
  const std::vector<float> bias = random_numbers(n, 3);
  std::vector<float> c(many * n);
  gr::cpu_kit::gemm<float>(false, false, many, n, k, a.data(), k, b.data(), n, 0, c.data(), n, bias.data());
  for (std::size_t m : sizes{1, 4, 37, 130}) {
    std::vector<float> few(m * n);
    gr::cpu_kit::gemm<float>(false, false, m, n, k, a.data(), k, b.data(), n, 0, few.data(), n, bias.data());
    CHECK(std::equal(few.begin(), few.end(), c.begin()));
  }
}
