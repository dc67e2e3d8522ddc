#include <doctest/doctest.h>

#include <gradus/cpu/gemm.hpp>
#include <gradus/cpu/gemm_patches.hpp>
#include <gradus/gradus.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "../../support/message_of.hpp"
#include "../../support/plain_tiles.hpp"

namespace gr = gradus;

namespace {

using sizes = std::initializer_list<std::size_t>;
using tiles = gr::cpu_kit::factor_gemm<float, gr::bf16, gradus_test::plain_tiles>;

// What a product needs besides its operands.
struct world {
  gr::stream stream;
  gr::host_resource heap;
  gr::context<gr::cpu> ctx{stream, heap};
};

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
  for (T& v : values) v = static_cast<T>(static_cast<float>(static_cast<int>(bits() % 9) - 4));
  return values;
}

template <class T, class Factor>
struct operands {
  std::vector<Factor> a, b;
  std::vector<T> c, bias;

  // What a product must not read is NaN: gaps, and C where it is only written.
  explicit operands(const problem& p)
      : a(whole_numbers<Factor>((p.transpose_a ? p.k : p.m) * p.lda(), 1)),
        b(whole_numbers<Factor>((p.transpose_b ? p.n : p.k) * p.ldb(), 2)),
        c(whole_numbers<T>(p.m * p.ldc(), 3)),
        bias(whole_numbers<T>(p.n, 4)) {
    poison(a, p.lda(), p.lda() - p.gap);
    poison(b, p.ldb(), p.ldb() - 2 * p.gap);
    poison(c, p.ldc(), p.add ? p.n : 0);
  }
  template <class V>
  static void poison(std::vector<V>& values, std::size_t stride, std::size_t from) {
    for (std::size_t i = 0; i < values.size(); ++i)
      if (i % stride >= from) values[i] = static_cast<V>(std::numeric_limits<float>::quiet_NaN());
  }
};

// Elements in which `found` is not the plain product, or that were written outside of C.
template <class T, class Factor>
std::size_t mistakes(const problem& p, const operands<T, Factor>& x, const std::vector<T>& found) {
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

template <class T, class Kernel = gr::cpu_kit::packed_gemm<T>, class Factor = T>
std::size_t mistakes(const problem& p) {
  const operands<T, Factor> x(p);
  std::vector<T> c = x.c;
  static world w;  // threads are made once
  gr::cpu_kit::gemm<T, Kernel>(w.ctx, p.transpose_a, p.transpose_b, p.m, p.n, p.k, x.a.data(), p.lda(), x.b.data(),
                               p.ldb(), p.add, c.data(), p.ldc(), p.with_bias ? x.bias.data() : nullptr);
  return mistakes(p, x, c);
}

// Sizes about those at which the kernel turns to another strip, panel or block, each under every flag.
template <class T, class Kernel = gr::cpu_kit::packed_gemm<T>, class Factor = T>
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
        wrong += mistakes<T, Kernel, Factor>(p);
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

TEST_CASE("so are those of bf16, summed in float or rounded to bf16 at the end") {
  using kernel = gr::cpu_kit::gemm_kernel<float, gr::bf16, gr::bf16>;
  CHECK(mistakes_about_edges<float, kernel, gr::bf16>() == 0);
  for (bool transpose_a : {false, true})
    for (bool transpose_b : {false, true})
      for (bool add : {false, true})
        for (std::size_t k : sizes{1023, 1024, 1030, 2049}) {  // about the depth of a block of pairs
          CAPTURE(k);
          CHECK(mistakes<float, kernel, gr::bf16>({45, 71, k, transpose_a, transpose_b, add, false, 5}) == 0);
          CHECK(mistakes<float, kernel, gr::bf16>({145, 71, k, transpose_a, transpose_b, add, !add, 4}) == 0);
        }
  CHECK(mistakes<float, kernel, gr::bf16>({3, 4 * 768 + 1, 256, true, false}) == 0);
  CHECK(mistakes<float, kernel, gr::bf16>({145, 2 * 768 + 1, 1537, false, true, true}) == 0);
  CHECK(mistakes<float, kernel, gr::bf16>({3, 40, 0, true, true, true}) == 0);
}

namespace {

// Elements in which a product of A in 16 bits by B in float differs from that by B rounded to A's type.
template <class Half, class Mixed, class Rounded>
std::size_t differs_from_rounded(world& w, const problem& p) {
  std::vector<Half> a, rounded;
  for (float v : random_numbers((p.transpose_a ? p.k : p.m) * p.lda(), 1)) a.emplace_back(v);
  const std::vector<float> b = random_numbers((p.transpose_b ? p.n : p.k) * p.ldb(), 2);
  for (float v : b) rounded.emplace_back(v);
  std::vector<float> found = random_numbers(p.m * p.ldc(), 3), expected = found;
  gr::cpu_kit::gemm<float, Mixed>(w.ctx, p.transpose_a, p.transpose_b, p.m, p.n, p.k, a.data(), p.lda(), b.data(),
                                  p.ldb(), p.add, found.data(), p.ldc());
  gr::cpu_kit::gemm<float, Rounded>(w.ctx, p.transpose_a, p.transpose_b, p.m, p.n, p.k, a.data(), p.lda(),
                                    rounded.data(), p.ldb(), p.add, expected.data(), p.ldc());
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < found.size(); ++i) wrong += found[i] != expected[i];
  return wrong;
}

template <class Half, class Mixed, class Rounded>
std::size_t mixed_mistakes() {
  world w;
  std::size_t wrong = 0;
  for (std::size_t m : sizes{1, 4, 5, 14, 31, 145})
    for (std::size_t n : sizes{1, 32, 71, 1600})
      for (std::size_t k : sizes{1, 31, 64, 1040})
        for (unsigned flags = 0; flags < 8; ++flags)
          if (m * n * k < 8'000'000)
            wrong += differs_from_rounded<Half, Mixed, Rounded>(
                w, {m, n, k, (flags & 1) != 0, (flags & 2) != 0, (flags & 4) != 0, false, n % 3});
  return wrong;
}

template <class Half, gr::index_t Rows, gr::index_t Across, gr::index_t Bytes>
std::size_t mixed_mistakes_of() {
  using kernel = gr::cpu_kit::packed_gemm<float, Rows, Across, Bytes, Half>;
  return mixed_mistakes<Half, kernel, kernel>();
}

}  // namespace

TEST_CASE_TEMPLATE("a B of float is rounded to the 16 bits of A", Half, gr::bf16, gr::f16) {
  using mixed = gr::cpu_kit::gemm_kernel<float, Half, float>;
  using rounded = gr::cpu_kit::gemm_kernel<float, Half, Half>;
  CHECK(mixed_mistakes<Half, mixed, rounded>() == 0);
  CHECK(mixed_mistakes_of<Half, 6, 2, 32>() == 0);
  CHECK(mixed_mistakes_of<Half, 6, 2, 16>() == 0);
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
  world w;
  const std::size_t m = 37, n = 70, k = 900;
  const std::vector<float> a = random_numbers(m * k, 1);
  const std::vector<float> b = random_numbers(k * n, 2);
  std::vector<float> c(m * n);
  gr::cpu_kit::gemm<float>(w.ctx, false, false, m, n, k, a.data(), k, b.data(), n, false, c.data(), n);
  double worst = 0;
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t j = 0; j < n; ++j) {
      double exact = 0;
      for (std::size_t q = 0; q < k; ++q)
        exact += static_cast<double>(a[i * k + q]) * static_cast<double>(b[q * n + j]);
      worst = std::max(worst, std::abs(static_cast<double>(c[i * n + j]) - exact));
    }
  // An addition rounds by up to 2^-24 of a partial sum, here about 10, and k of them add up as sqrt(k) does: 2e-5, and
  // twice that where it comes worst.
  CHECK(worst < 4e-5);
}

TEST_CASE("the bits of a product do not depend on the number of threads") {
  world w;
  const std::size_t n = 1153, k = 517;
  for (std::size_t m : sizes{3, 37, 301}) {
    CAPTURE(m);
    const std::vector<float> a = random_numbers(m * k, 1);
    const std::vector<float> b = random_numbers(k * n, 2);
    std::vector<float> c[5];
    for (int t = 0; t < 5; ++t) {
      gr::set_thread_count(w.ctx.stream(), std::array{1, 2, 3, 7, 16}[static_cast<std::size_t>(t)]);
      c[t].resize(m * n);
      gr::cpu_kit::gemm<float>(w.ctx, true, false, m, n, k, a.data(), m, b.data(), n, false, c[t].data(), n);
    }
    for (int t = 1; t < 5; ++t) CHECK(c[0] == c[t]);
  }
}

TEST_CASE_TEMPLATE("a row has the same bits in a product of few rows and in one of many", T, float, double, gr::bf16) {
  using Acc = std::conditional_t<std::is_same_v<T, double>, double, float>;
  world w;
  const std::size_t many = 300;
  const auto numbers = [](std::size_t count, unsigned seed) {
    std::vector<T> values;
    for (float x : random_numbers(count, seed)) values.push_back(T(x));
    return values;
  };
  for (std::size_t n : sizes{203, 1536, 1552})  // whole registers or not, an even number of them or an odd one
    for (std::size_t k : sizes{1152, 1158})     // a multiple of what is taken at once, or not
      for (bool transposed : {false, true}) {
        const std::vector<T> a = numbers(many * k, 1), b = numbers(k * n, 2), bias = numbers(n, 3);
        const auto product = [&](std::size_t m) {
          std::vector<T> c(m * n);
          gr::cpu_kit::gemm<Acc>(w.ctx, false, transposed, m, n, k, a.data(), k, b.data(), transposed ? k : n, false,
                                 c.data(), n, bias.data());
          return c;
        };
        const std::vector<T> c = product(many);
        for (std::size_t m : sizes{1, 3, 4, 7, 16, 23, 24, 25, 37, 130}) {
          CAPTURE(n);
          CAPTURE(k);
          CAPTURE(transposed);
          CAPTURE(m);
          const std::vector<T> few = product(m);
          const bool same_bits = std::memcmp(static_cast<const void*>(few.data()), static_cast<const void*>(c.data()),
                                             few.size() * sizeof(T)) == 0;
          CHECK(same_bits);
        }
      }
}

namespace {

template <class T>
T rounded(double x) {
  if constexpr (std::is_same_v<T, double>) return x;
  else return T(static_cast<float>(x));
}
template <class T>
double exact(T x) {
  if constexpr (std::is_floating_point_v<T>) return static_cast<double>(x);
  else return static_cast<double>(static_cast<float>(x));
}
template <class T>
std::vector<T> random_in(std::size_t count, unsigned seed) {
  std::vector<T> values;
  for (float v : random_numbers(count, seed)) values.push_back(rounded<T>(static_cast<double>(v)));
  return values;
}

// The largest error of a product of mixed types, in units of what its result's type can tell apart (and of the sums'
// own error).
template <class Acc, class SA, class SB, class SC, class Kernel = void>
double worst_error(const problem& p) {
  const auto a = random_in<SA>((p.transpose_a ? p.k : p.m) * p.lda(), 1);
  const auto b = random_in<SB>((p.transpose_b ? p.n : p.k) * p.ldb(), 2);
  const auto bias = random_in<SB>(p.n, 3);
  auto c = random_in<SC>(p.m * p.ldc(), 4);
  if (!p.add)  // what is only written must not be read
    std::fill(c.begin(), c.end(), rounded<SC>(std::numeric_limits<double>::quiet_NaN()));
  const auto before = c;
  static world w;
  gr::cpu_kit::gemm<Acc, Kernel>(w.ctx, p.transpose_a, p.transpose_b, p.m, p.n, p.k, a.data(), p.lda(), b.data(),
                                 p.ldb(), p.add, c.data(), p.ldc(), p.with_bias ? bias.data() : nullptr);
  const double step = std::is_same_v<SC, gr::bf16>  ? 0x1p-8
                      : std::is_same_v<SC, gr::f16> ? 0x1p-11
                      : std::is_same_v<SC, float>   ? 0x1p-24
                                                    : 0x1p-53;
  const auto factor = [](SB x) {  // a float is rounded to the other operand's 16 bits
    constexpr bool rounds = std::is_same_v<SB, float> && std::is_same_v<Acc, float> && sizeof(SA) == 2;
    if constexpr (rounds) return exact(SA(x));
    else return exact(x);
  };
  const double sum_step = std::is_same_v<Acc, float> ? 0x1p-24 : 0x1p-53;
  std::vector<double> rows, columns;  // of a and of b, as doubles, one after the other
  for (std::size_t i = 0; i < p.m; ++i)
    for (std::size_t q = 0; q < p.k; ++q)
      rows.push_back(exact(p.transpose_a ? a[q * p.lda() + i] : a[i * p.lda() + q]));
  for (std::size_t j = 0; j < p.n; ++j)
    for (std::size_t q = 0; q < p.k; ++q)
      columns.push_back(factor(p.transpose_b ? b[j * p.ldb() + q] : b[q * p.ldb() + j]));
  double worst = 0;
  for (std::size_t i = 0; i < p.m; ++i)
    for (std::size_t j = 0; j < p.n; ++j) {
      double sum = p.with_bias ? exact(bias[j]) : p.add ? exact(before[i * p.ldc() + j]) : 0;
      double size = std::abs(sum);
      for (std::size_t q = 0; q < p.k; ++q) {
        const double term = rows[i * p.k + q] * columns[j * p.k + q];
        sum += term;
        size += std::abs(term);
      }
      const double error = std::abs(exact(c[i * p.ldc() + j]) - sum);
      const double least = std::is_same_v<SC, gr::f16> ? 0x1p-25 : 0;  // half of its smallest number
      const double allowed =
          least + step * std::abs(sum) + sum_step * 4 * std::sqrt(static_cast<double>(p.k + 1)) * size;
      worst = std::max(worst, error == error ? error / allowed : 1e9);
    }
  return worst;
}

template <class Acc, class SA, class SB, class SC>
void check_types() {
  unsigned flags = 0;
  for (std::size_t m : sizes{1, 15, 37})
    for (std::size_t n : sizes{9, 64, 71})
      for (std::size_t k : sizes{0, 1, 33, 530, 1200}) {
        flags = flags * 5 + 3;
        problem p{m, n, k};
        p.transpose_a = flags & 1U << 8;
        p.transpose_b = flags & 1U << 9;
        p.add = flags & 1U << 10;
        p.with_bias = (flags & 3U << 11) == 0;
        p.gap = flags & 1U << 13 ? 3 : 0;
        CAPTURE(m);
        CAPTURE(n);
        CAPTURE(k);
        CHECK(worst_error<Acc, SA, SB, SC>(p) <= 1);
      }
  for (bool transposed : {false, true}) {
    CHECK(worst_error<Acc, SA, SB, SC>({530, 900, 530, transposed, transposed, true}) <=
          1);  // several chunks and blocks
    CHECK(worst_error<Acc, SA, SB, SC>({45, 71, 530, transposed, !transposed, transposed}) <= 1);
  }
}
template <class Acc, class SA, class SB>
void check_results() {
  check_types<Acc, SA, SB, float>();
  check_types<Acc, SA, SB, gr::bf16>();
  check_types<Acc, SA, SB, gr::f16>();
}

}  // namespace

TEST_CASE_TEMPLATE("that holds for operands and results of every type, and for either layout", T, float, double,
                   gr::bf16, gr::f16) {
  world w;
  using sums = gr::compute_type<T>;
  const std::size_t many = 40;
  for (std::size_t n : sizes{48, 2112})  // several blocks of the sums, and n too wide for one depth
    for (std::size_t k : sizes{64, 768, 2080})
      for (const bool transposed : {false, true})
        for (const bool with_bias : {false, true}) {
          const auto a = random_in<T>(many * k, 1), b = random_in<T>(k * n, 2), bias = random_in<T>(n, 3);
          const std::size_t ldb = transposed ? k : n;
          std::vector<T> c(many * n), few(4 * n);
          gr::cpu_kit::gemm<sums>(w.ctx, false, transposed, many, n, k, a.data(), k, b.data(), ldb, false, c.data(), n,
                                  with_bias ? bias.data() : nullptr);
          for (std::size_t m : sizes{1, 2, 3, 4}) {
            CAPTURE(n);
            CAPTURE(k);
            CAPTURE(m);
            CAPTURE(transposed);
            gr::cpu_kit::gemm<sums>(w.ctx, false, transposed, m, n, k, a.data() + 7 * k, k, b.data(), ldb, false,
                                    few.data(), n, with_bias ? bias.data() : nullptr);
            CHECK(std::memcmp(static_cast<const void*>(few.data()), static_cast<const void*>(c.data() + 7 * n),
                              m * n * sizeof(T)) == 0);
          }
        }
}

TEST_CASE("operands and results of any types are multiplied in one, and rounded once") {
  check_results<float, float, gr::bf16>();
  check_results<float, gr::bf16, float>();
  check_results<float, gr::bf16, gr::bf16>();
  check_results<float, gr::f16, gr::f16>();
  check_results<float, gr::f16, gr::bf16>();
  check_types<float, float, float, gr::bf16>();
  check_types<double, double, float, double>();
  check_types<double, gr::f16, double, float>();
  check_types<double, double, double, gr::bf16>();
}

namespace {

// A deep product of few tiles on 1 to 96 threads: equal bits, near the exact sums.
template <class Acc, class Factor, class Kernel = gr::cpu_kit::gemm_kernel<Acc, Factor, Factor>>
void check_slices(double tolerance) {
  world w;
  const std::size_t m = 67, n = 53, k = 7013, ldc = n + 3;
  const auto a = random_in<Factor>(m * k, 1), b = random_in<Factor>(k * n, 2);
  const auto bias = random_in<Acc>(n, 3);
  const auto slices = [&](std::size_t threads) {
    return gr::cpu_kit::tile_grid::for_threads(threads, m, n, Kernel::tile_rows, Kernel::tile_columns, k,
                                               Kernel::kc_of(n, k))
        .slices;
  };
  CHECK(slices(1) == 1);
  CHECK(slices(96) > 1);
  for (const bool transposed : {false, true})
    for (const bool with_bias : {false, true})
      for (const bool add : {false, true}) {
        CAPTURE(transposed);
        CAPTURE(with_bias);
        CAPTURE(add);
        std::vector<Acc> first;
        const Acc unwritten(7);
        for (const int threads : {1, 2, 3, 8, 96}) {
          CAPTURE(threads);
          gr::set_thread_count(w.ctx.stream(), threads);
          std::vector<Acc> c(m * ldc, add && !with_bias ? Acc(0.5) : std::numeric_limits<Acc>::quiet_NaN());
          for (std::size_t i = 0; i < c.size(); ++i)
            if (i % ldc >= n) c[i] = unwritten;
          gr::cpu_kit::gemm<Acc, Kernel>(w.ctx, transposed, !transposed, m, n, k, a.data(), transposed ? m : k,
                                         b.data(), transposed ? n : k, add, c.data(), ldc,
                                         with_bias ? bias.data() : nullptr);
          std::size_t outside = 0;  // elements between rows that were written
          for (std::size_t i = 0; i < c.size(); ++i)
            outside += i % ldc >= n && std::exchange(c[i], Acc(0)) != unwritten;
          CHECK(outside == 0);
          if (first.empty()) first = c;
          CHECK(c == first);
        }
        double worst = 0;
        for (std::size_t i = 0; i < m; ++i)
          for (std::size_t j = 0; j < n; ++j) {
            double exact = with_bias ? static_cast<double>(bias[j]) : add ? 0.5 : 0;
            for (std::size_t q = 0; q < k; ++q)
              exact += static_cast<double>(transposed ? a[q * m + i] : a[i * k + q]) *
                       static_cast<double>(transposed ? b[q * n + j] : b[j * k + q]);
            worst = std::max(worst, std::abs(static_cast<double>(first[i * ldc + j]) - exact));
          }
        CHECK(worst < tolerance);
      }
}

}  // namespace

TEST_CASE("a deep product of few tiles has the bits of one thread on many, which slice its sums") {
  // Partial sums are about 28 and are rounded by 2^-24 of it k times, which adds up as sqrt(k) does.
  check_slices<float, float>(3e-4);
  check_slices<float, gr::bf16>(3e-4);
  check_slices<double, double>(1e-11);
  check_slices<float, gr::bf16, tiles>(3e-4);  // whose sums are not sliced
}

TEST_CASE_TEMPLATE("a narrow result of a deep product is the wide one, rounded", T, gr::bf16, gr::f16) {
  world w;
  const std::size_t m = 520, n = 67, k = 1153;
  const auto a = random_in<T>(m * k, 1);
  const auto b = random_in<T>(k * n, 2);
  std::vector<float> wide(m * n);
  std::vector<T> narrow(m * n);
  gr::cpu_kit::gemm<float>(w.ctx, false, false, m, n, k, a.data(), k, b.data(), n, false, wide.data(), n);
  gr::cpu_kit::gemm<float>(w.ctx, false, false, m, n, k, a.data(), k, b.data(), n, false, narrow.data(), n);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < m * n; ++i) wrong += narrow[i].bits != T(wide[i]).bits;
  CHECK(wrong == 0);
}

TEST_CASE("products on a tile unit are exact on whole numbers at every edge of its tiles and blocks") {
  unsigned flags = 0;
  const auto check = [&](std::size_t m, std::size_t n, std::size_t k) {
    CAPTURE(m);
    CAPTURE(n);
    CAPTURE(k);
    for (unsigned round = 0; round < 2; ++round, flags += 7)
      CHECK(mistakes<float, tiles, gr::bf16>({m, n, k, (flags & 1) != 0, (flags & 2) != 0, (flags & 4) != 0,
                                              (flags & 8) != 0, (flags & 16) != 0 ? 3U : 0U}) == 0);
  };
  for (std::size_t m : sizes{1, 15, 16, 17, 31, 32, 33, 70})
    for (std::size_t n : sizes{1, 16, 17, 32, 33, 95})
      for (std::size_t k : sizes{0, 1, 2, 31, 32, 33, 67}) check(m, n, k);
  for (std::size_t k : sizes{511, 512, 513, 1030}) check(45, 71, k);
  for (std::size_t n : sizes{1023, 1057}) check(33, n, 530);
}

TEST_CASE("products of real numbers on a tile unit are near the exact ones, in every type and layout") {
  for (bool transpose_a : {false, true})
    for (bool transpose_b : {false, true})
      for (bool add : {false, true}) {
        CHECK(worst_error<float, gr::bf16, gr::bf16, float, tiles>({37, 75, 531, transpose_a, transpose_b, add}) <= 1);
        CHECK(worst_error<float, gr::bf16, gr::bf16, gr::bf16, tiles>(
                  {75, 37, 1062, transpose_a, transpose_b, add, !add, 3}) <= 1);
        CHECK(worst_error<float, gr::bf16, float, gr::bf16, tiles>(
                  {35, 45, 70, transpose_a, transpose_b, add, !add, 3}) <= 1);
      }
  CHECK(worst_error<float, gr::bf16, gr::bf16, gr::bf16, tiles>({530, 33, 600, false, false, true}) <= 1);
}

TEST_CASE_TEMPLATE("a tile unit's bits do not depend on threads or on the other rows, and a B of float is rounded", T,
                   float, gr::bf16) {
  world w;
  const std::size_t many = 101, n = 211;
  const auto bias = random_in<T>(n, 3);
  for (const bool transposed : {false, true}) {
    const std::size_t k = transposed ? 301 : 581;  // one block or two
    const auto a = random_in<gr::bf16>(many * k, 1), b = random_in<gr::bf16>(k * n, 2);
    const std::vector<float> wide(b.begin(), b.end());
    const auto product = [&](int threads, std::size_t m, const auto& right) {
      std::vector<T> c(m * n);
      gr::set_thread_count(w.ctx.stream(), threads);
      gr::cpu_kit::gemm<float, tiles>(w.ctx, false, transposed, m, n, k, a.data(), k, right.data(), transposed ? k : n,
                                      false, c.data(), n, bias.data());
      return c;
    };
    const auto same = [](const std::vector<T>& some, const std::vector<T>& all) {
      return std::memcmp(static_cast<const void*>(some.data()), static_cast<const void*>(all.data()),
                         some.size() * sizeof(T)) == 0;
    };
    const std::vector<T> c = product(1, many, b);
    gr::cpu_kit::parallel_tasks(w.ctx, 1, std::size_t{1} << 21, [](gr::index_t, void* scratch) {
      std::memset(scratch, 0xff, std::size_t{1} << 21);  // NaN wherever a kernel does not write before it reads
    });
    for (int threads : {1, 2, 3, 7}) CHECK(same(product(threads, many, b), c));
    for (std::size_t m : sizes{1, 7, 16, 31, 40}) CHECK(same(product(3, m, b), c));
    CHECK(same(product(2, many, wide), c));
  }
}

namespace {

// Convolutions of whole numbers and their gradients for filters, on a tile unit: elements that differ from plain loops.
std::size_t mistakes_of_patches(std::size_t images, std::size_t channels, std::size_t filters, std::size_t side) {
  using kernel = gr::cpu_kit::patch_gemm<float, gr::bf16, gradus_test::plain_tiles>;
  using gr::bf16;
  world w;
  const std::size_t area = side * side, k = channels * 9, columns = images * area;
  const auto x = whole_numbers<bf16>(images * channels * area, 1), weights = whole_numbers<bf16>(filters * k, 2);
  std::vector<float> y(images * filters * area, std::numeric_limits<float>::quiet_NaN());
  std::vector<float> gradient(filters * k, std::numeric_limits<float>::quiet_NaN());
  const auto dy = whole_numbers<bf16>(y.size(), 3);
  const gr::cpu_kit::patch_axis taps{side, 3, -1, 1, 1, side}, whole{side, 1, 0, 1, 1, side};
  const gr::cpu_kit::patch_matrix<const bf16> patches{x.data(), channels, channels * area, taps, taps};
  const gr::cpu_kit::patch_matrix<const bf16> of_dy{dy.data(), filters, filters * area, whole, whole};
  const gr::cpu_kit::patch_matrix<float> of_y{y.data(), filters, filters * area, whole, whole};
  gr::cpu_kit::multiply_patches<kernel>(w.ctx, 1, filters, columns, k, [&](gr::index_t) {
    return kernel::convolution<bf16, bf16, float, float>({weights.data(), k, false}, patches, {of_y, nullptr, false});
  });
  gr::cpu_kit::multiply_patches<kernel>(w.ctx, 1, k, filters, columns, [&](gr::index_t) {
    return kernel::correlation<bf16, bf16, float>(patches, of_dy, gradient.data(), k, false);
  });
  std::vector<double> sums(filters * k);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < images; ++i)
    for (std::size_t f = 0; f < filters; ++f)
      for (std::size_t p = 0; p < area; ++p) {
        const std::size_t at = (i * filters + f) * area + p;
        double sum = 0;
        for (std::size_t q = 0; q < k; ++q) {
          const std::size_t row = p / side + q % 9 / 3 - 1, column = p % side + q % 3 - 1;  // wraps around below 0
          if (row >= side || column >= side) continue;
          const auto element = static_cast<double>(x[(i * channels + q / 9) * area + row * side + column]);
          sum += element * static_cast<double>(weights[f * k + q]);
          sums[f * k + q] += element * static_cast<double>(dy[at]);
        }
        wrong += static_cast<double>(y[at]) != sum;
      }
  for (std::size_t i = 0; i < sums.size(); ++i) wrong += static_cast<double>(gradient[i]) != sums[i];
  return wrong;
}

}  // namespace

TEST_CASE("convolutions on a tile unit, and gradients for their filters, are exact on whole numbers") {
  CHECK(mistakes_of_patches(1, 1, 1, 3) == 0);
  CHECK(mistakes_of_patches(3, 2, 17, 5) == 0);
  CHECK(mistakes_of_patches(2, 7, 33, 9) == 0);
  CHECK(mistakes_of_patches(5, 61, 35, 12) == 0);  // several blocks of either sum
}

TEST_CASE("a system without tiles says so") {
  const std::string said = gradus_test::message_of([] { gr::cpu_kit::tile_permission ask{gr::stream{}}; });
  CAPTURE(said);
  CHECK((said == "nothing was thrown" || said.find("compile it with -mno-amx-tile") != std::string::npos));
}
