// Sums over leaves and ranks have the CPU's bits, for any number of parts, wherever they lie.
#include <cstring>
#include <gradus/ranks/cuda/tree_sum.hpp>

#include "device.hpp"
#include "tree_sum_cases.hpp"

namespace {

/// n elements from `shift` elements behind the beginning of memory of their own, with a margin around them.
template <class T>
class numbers {
 public:
  numbers(gr::context<gr::cuda>& ctx, std::size_t n, std::size_t shift)
      : memory_(ctx, (n + shift + 1) * sizeof(T), gr::category::temporary), n_(n), shift_(shift) {
    for (T* const margin : {data() - shift, data() + n})
      gr::cuda_kit::check(
          cudaMemsetAsync(margin, margin_byte, (margin == data() + n ? 1 : shift) * sizeof(T), ctx.stream().handle()),
          "cudaMemsetAsync");
  }
  void set(const std::vector<T>& values) {
    gr::device_access<gr::cuda>::upload(memory_.owner(), data(), values.data(), n_ * sizeof(T));
  }
  std::vector<T> get() const {
    std::vector<T> values(n_);
    gr::device_access<gr::cuda>::download(memory_.owner(), values.data(), data(), n_ * sizeof(T));
    return values;
  }
  /// Whether nothing wrote to the margin.
  bool margin_is_whole() const {
    std::vector<unsigned char> margin((shift_ + 1) * sizeof(T));
    const std::size_t before = shift_ * sizeof(T);
    gr::device_access<gr::cuda>::download(memory_.owner(), margin.data(), memory_.data(), before);
    gr::device_access<gr::cuda>::download(memory_.owner(), margin.data() + before, data() + n_, sizeof(T));
    return std::all_of(margin.begin(), margin.end(), [](unsigned char byte) { return byte == margin_byte; });
  }
  T* data() const { return static_cast<T*>(memory_.data()) + shift_; }

 private:
  static constexpr unsigned char margin_byte = 0xA5;
  gr::buffer<gr::cuda> memory_;
  std::size_t n_, shift_;
};

template <class T>
std::vector<T> random(std::mt19937& engine, std::size_t n) {
  std::uniform_real_distribution<double> draw(0, 100);
  std::vector<T> values(n);
  for (T& v : values) v = static_cast<T>(static_cast<gr::compute_type<T>>(draw(engine)));
  return values;
}
template <class T>
bool equal_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

enum class result { apart, first, last };

/// The sum of `count` parts at `shift` elements behind a boundary, the result `to_shift` behind one or in a part.
template <class T>
void sums(gpu& g, std::mt19937& engine, std::size_t count, std::size_t n, std::size_t shift, std::size_t to_shift,
          result where) {
  CAPTURE(count);
  CAPTURE(n);
  CAPTURE(shift);
  CAPTURE(to_shift);
  CAPTURE(where);
  std::vector<std::vector<T>> values;
  std::vector<numbers<T>> parts;
  std::vector<const T*> on_host, on_gpu;
  for (std::size_t k = 0; k < count; ++k) {
    values.push_back(random<T>(engine, n));
    parts.emplace_back(g.ctx, n, shift).set(values[k]);
  }
  for (std::size_t k = 0; k < count; ++k) on_host.push_back(values[k].data()), on_gpu.push_back(parts[k].data());
  std::vector<T> expected(n);
  sum_on_cpu(expected.data(), on_host, n);
  const numbers<T> apart(g.ctx, n, to_shift);
  const numbers<T>& to = where == result::apart ? apart : where == result::first ? parts.front() : parts.back();
  gr::kernel<gr::op::tree_sum, gr::cuda>::forward(g.ctx, to.data(), on_gpu, n);
  CHECK(equal_bits(to.get(), expected));
  CHECK(to.margin_is_whole());
}

template <class To, class C, class From>
void merges(gpu& g, std::mt19937& engine, std::size_t count, std::size_t n, std::size_t shift, bool in_place) {
  CAPTURE(count);
  CAPTURE(n);
  CAPTURE(shift);
  CAPTURE(in_place);
  std::vector<std::vector<C>> values;
  std::vector<numbers<C>> before;
  std::vector<const C*> on_host, on_gpu;
  for (std::size_t k = 0; k < count; ++k) {
    values.push_back(random<C>(engine, n));
    before.emplace_back(g.ctx, n, shift).set(values[k]);
  }
  for (std::size_t k = 0; k < count; ++k) on_host.push_back(values[k].data()), on_gpu.push_back(before[k].data());
  const auto last = random<From>(engine, n);
  numbers<From> leaf(g.ctx, n, shift);
  leaf.set(last);
  std::vector<To> expected(n);
  merge_on_cpu(expected.data(), on_host, last.data(), n);
  const numbers<To> apart(g.ctx, n, shift);
  To* to = apart.data();
  if constexpr (std::is_same_v<To, From>)
    if (in_place) to = leaf.data();
  if constexpr (std::is_same_v<To, C>)
    if (in_place && count > 0) to = before.back().data();
  gr::kernel<gr::op::merge_leaves, gr::cuda>::forward(g.ctx, to, on_gpu, static_cast<const From*>(leaf.data()), n);
  std::vector<To> got(n);
  gr::device_access<gr::cuda>::download(g.ctx, got.data(), to, n * sizeof(To));
  CHECK(equal_bits(got, expected));
}

}  // namespace

TEST_CASE_TEMPLATE("a sum over parts has the CPU's bits for each type", T, double, float, gr::bf16, gr::f16,
                   std::int64_t, std::int32_t, std::uint16_t, std::uint8_t) {
  if (no_gpu()) return;
  gpu g;
  const unsigned seed = gradus_test::fresh_seed();
  CAPTURE(seed);
  std::mt19937 engine(seed);
  for (const std::size_t count : {1, 2, 3, 7, 8}) sums<T>(g, engine, count, 1037, 0, 0, result::apart);
  for (const std::size_t shift : {1, 5}) {
    sums<T>(g, engine, 4, 301, shift, shift, result::apart);
    sums<T>(g, engine, 5, 301, shift, 0, result::apart);
    sums<T>(g, engine, 4, 301, shift, 0, result::first);
    sums<T>(g, engine, 6, 301, shift, 0, result::last);
  }
  for (const std::size_t n : {0, 1, 3, 16}) sums<T>(g, engine, 3, n, 3, 3, result::apart);
}

TEST_CASE("64 parts may lie anywhere, more at equal distances") {
  if (no_gpu()) return;
  gpu g;
  const unsigned seed = gradus_test::fresh_seed();
  CAPTURE(seed);
  std::mt19937 engine(seed);
  sums<float>(g, engine, 63, 41, 0, 0, result::apart);
  sums<float>(g, engine, 64, 41, 0, 0, result::apart);

  constexpr std::size_t count = 100, n = 37, distance = 40;
  const auto values = random<float>(engine, count * distance);
  numbers<float> row(g.ctx, count * distance, 0);
  row.set(values);
  std::vector<const float*> on_host, on_gpu;
  for (std::size_t k = 0; k < count; ++k) {
    on_host.push_back(values.data() + k * distance);
    on_gpu.push_back(row.data() + k * distance);
  }
  std::vector<float> expected(n);
  sum_on_cpu(expected.data(), on_host, n);
  const numbers<float> to(g.ctx, n, 0);
  gr::kernel<gr::op::tree_sum, gr::cuda>::forward(g.ctx, to.data(), on_gpu, n);
  CHECK(equal_bits(to.get(), expected));
  std::swap(on_gpu[40], on_gpu[50]);
  CHECK_THROWS_WITH_AS((gr::kernel<gr::op::tree_sum, gr::cuda>::forward(g.ctx, to.data(), on_gpu, n)),
                       "tree_sum: 100 parts; more than 64 must be at equal distances, and fewer than 16384", gr::error);
}

TEST_CASE("leaves are merged with the CPU's bits") {
  if (no_gpu()) return;
  gpu g;
  const unsigned seed = gradus_test::fresh_seed();
  CAPTURE(seed);
  std::mt19937 engine(seed);
  for (const std::size_t count : {0, 1, 3, 6})
    for (const std::size_t shift : {0, 3}) {
      merges<double, double, double>(g, engine, count, 130, shift, count == 1);
      merges<float, float, float>(g, engine, count, 1037, shift, count == 3);
      merges<float, float, gr::bf16>(g, engine, count, 333, shift, count == 3);
      merges<gr::bf16, float, gr::bf16>(g, engine, count, 333, shift, count == 3);
      merges<gr::f16, float, gr::f16>(g, engine, count, 64, shift, count == 6);
    }
}

TEST_CASE("of two elements a reduction takes the one that is not a number") {
  if (no_gpu()) return;
  gpu g;
  const float nan = std::nanf("");
  const std::vector<float> a{1, nan, 3, -1}, b{2, 5, nan, -1};
  numbers<float> first(g.ctx, 4, 0), second(g.ctx, 4, 0);
  first.set(a), second.set(b);
  const std::vector<const float*> parts{first.data(), second.data()};
  const numbers<float> to(g.ctx, 4, 0);
  const auto check = [&](float least) {
    const auto got = to.get();
    CHECK(got[0] == least);
    CHECK(std::isnan(got[1]));
    CHECK(std::isnan(got[2]));
    CHECK(got[3] == -1);
  };
  gr::cuda_kit::reduce_parts<gr::cuda_kit::smaller_of_two>(g.ctx, to.data(), parts, 4);
  check(1);
  gr::cuda_kit::reduce_parts<gr::cuda_kit::larger_of_two>(g.ctx, to.data(), parts, 4);
  check(2);
}
