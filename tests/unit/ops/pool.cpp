#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "../../support/operands.hpp"

namespace gr = gradus;
using namespace gradus_test;

namespace {

constexpr gr::pool overlapping{.size = 3, .stride = 2, .padding = 1};

// The entries of a window along an axis of n: those of a pool, or of number i of m outputs.
struct axis {
  std::size_t n, outputs, size, stride, padding;
  bool adaptive;
  static constexpr axis of(gr::pool p, std::size_t gr::per_axis::*a, std::size_t n) {
    const std::size_t stride = p.stride.*a == 0 ? p.size.*a : p.stride.*a;
    return {n, (n + 2 * (p.padding.*a) - p.size.*a) / stride + 1, p.size.*a, stride, p.padding.*a, false};
  }
  static axis of_outputs(std::size_t m, std::size_t n) { return {n, m, 0, 0, 0, true}; }
  std::vector<std::size_t> entries(std::size_t i) const {
    std::vector<std::size_t> all;
    const double share = static_cast<double>(n) / static_cast<double>(outputs), at = static_cast<double>(i);
    for (std::size_t e = 0; e < n; ++e)
      if (adaptive
              ? static_cast<double>(e) >= std::floor(at * share) && static_cast<double>(e) < std::ceil((at + 1) * share)
              : e + padding >= i * stride && e + padding < i * stride + size)
        all.push_back(e);
    return all;
  }
};

// Planes pooled by their definition, and the gradient.
outcome pooled(bool largest, const axis& rows, const axis& columns, const values& x, const values& dy) {
  outcome r{values(dy.size()), {values(x.size())}};
  const std::size_t planes = x.size() / (rows.n * columns.n);
  std::size_t o = 0;
  for (std::size_t p = 0; p < planes; ++p)
    for (std::size_t i = 0; i < rows.outputs; ++i)
      for (std::size_t j = 0; j < columns.outputs; ++j, ++o) {
        std::vector<std::size_t> window;
        for (const std::size_t row : rows.entries(i))
          for (const std::size_t column : columns.entries(j)) window.push_back((p * rows.n + row) * columns.n + column);
        const std::size_t all = rows.adaptive ? window.size() : rows.size * columns.size;
        std::size_t best = window[0];
        for (const std::size_t e : window) {
          best = x[e] > x[best] ? e : best;
          r.y[o] += x[e] / static_cast<double>(all);
          if (!largest) r.gradients[0][e] += dy[o] / static_cast<double>(all);
        }
        if (!largest) continue;
        r.y[o] = x[best];
        r.gradients[0][best] += dy[o];
      }
  return r;
}

template <class Y, class S, class F>
void check(const F& f, bool largest, const axis& rows, const axis& columns) {
  CAPTURE(largest);
  workplace at;
  const auto x = integers<float, S>(at.ctx, -9, 9);  // with equal elements in a window
  const auto dy = normal<float, Y>(at.ctx);
  const auto found = evaluate(at.ctx, f, dy, x);
  const outcome wanted = pooled(largest, rows, columns, numbers(x), numbers(dy));
  CHECK(worst_error(found.y, wanted.y) < 1e-6);
  CHECK(worst_error(std::get<0>(found.gradients), wanted.gradients[0]) < 1e-6);
  CHECK(same_bits(f(x), found.y));  // without a tape
}
template <gr::pool Windows, gr::index_t H, gr::index_t W>
void check_windows() {
  CAPTURE(H);
  constexpr axis rows = axis::of(Windows, &gr::per_axis::y, H), columns = axis::of(Windows, &gr::per_axis::x, W);
  using X = gr::shape<2, 3, H, W>;
  using Y = gr::shape<2, 3, rows.outputs, columns.outputs>;
  check<Y, X>([](const auto& x) { return gr::max_pool2d<Windows>(x); }, true, rows, columns);
  check<Y, X>([](const auto& x) { return gr::avg_pool2d<Windows>(x); }, false, rows, columns);
}
template <gr::index_t H, gr::index_t W, gr::index_t FromH, gr::index_t FromW>
void check_adaptive() {
  CAPTURE(FromH);
  const axis rows = axis::of_outputs(H, FromH), columns = axis::of_outputs(W, FromW);
  using X = gr::shape<2, 3, FromH, FromW>;
  using Y = gr::shape<2, 3, H, W>;
  check<Y, X>([](const auto& x) { return gr::adaptive_max_pool2d<H, W>(x); }, true, rows, columns);
  check<Y, X>([](const auto& x) { return gr::adaptive_avg_pool2d<H, W>(x); }, false, rows, columns);
}

}  // namespace

TEST_CASE("windows side by side, overlapping, apart and with padding are pooled as they are defined") {
  check_windows<gr::pool{.size = 2}, 8, 34>();
  check_windows<gr::pool{.size = 3, .stride = 2, .padding = 1}, 7, 9>();
  check_windows<gr::pool{.size = {3, 5}, .stride = {1, 3}, .padding = {1, 0}}, 5, 17>();
  check_windows<gr::pool{.size = {2, 1}, .stride = {3, 2}}, 9, 6>();
  check_windows<gr::pool{.size = {20, 19}, .padding = {10, 0}}, 19, 19>();  // places above 255
}

TEST_CASE("adaptive pooling divides an axis as PyTorch does, also into more windows than entries") {
  check_adaptive<1, 1, 4, 7>();
  check_adaptive<3, 4, 10, 8>();
  check_adaptive<5, 7, 3, 20>();
  check_adaptive<1, 2, 40, 40>();  // places above 255
}

TEST_CASE("sequences are images of one row") {
  workplace at;
  const auto x = normal<float, gr::shape<2, 3, 13>>(at.ctx);
  const auto image = gr::reshape<2, 3, 1, 13>(x);
  constexpr gr::pool of_row{.size = {1, 3}, .stride = {1, 2}, .padding = {0, 1}};
  CHECK(same_bits(gr::max_pool1d<overlapping>(x), gr::reshape<2, 3, 7>(gr::max_pool2d<of_row>(image))));
  CHECK(same_bits(gr::avg_pool1d<overlapping>(x), gr::reshape<2, 3, 7>(gr::avg_pool2d<of_row>(image))));
  CHECK(same_bits(gr::adaptive_max_pool1d<4>(x), gr::reshape<2, 3, 4>(gr::adaptive_max_pool2d<1, 4>(image))));
  CHECK(same_bits(gr::adaptive_avg_pool1d<4>(x), gr::reshape<2, 3, 4>(gr::adaptive_avg_pool2d<1, 4>(image))));
}

TEST_CASE("NaN in a window is its largest element") {
  workplace at;
  auto x = gr::zeros<float, gr::shape<1, 1, 4, 4>>(at.ctx);
  x.data()[6] = NAN;  // second row of the second window
  x.data()[8] = -std::numeric_limits<float>::infinity();
  const auto y = gr::max_pool2d<gr::pool{.size = 2}>(x);
  CHECK(y(0, 0, 0, 0) == 0);
  CHECK(std::isnan(y(0, 0, 0, 1)));
  CHECK(y(0, 0, 1, 0) == 0);
}

TEST_CASE("pooling has the same bits on one thread and on two, and of 16-bit elements that of their values") {
  workplace at;
  using S = gr::shape<9, 5, 30, 31>;
  const auto x = normal<float, S>(at.ctx);
  const auto dy = normal<float, gr::shape<9, 5, 15, 16>>(at.ctx);
  const auto both = [](const auto& v) { return gr::max_pool2d<overlapping>(v) + gr::avg_pool2d<overlapping>(v); };
  const auto run = [&](int n) {
    const threads t(at.ctx, n);
    return evaluate(at.ctx, both, dy, x);
  };
  const auto one = run(1), two = run(2);
  CHECK(same_bits(one.y, two.y));
  CHECK(same_bits(std::get<0>(one.gradients), std::get<0>(two.gradients)));

  const auto low = gr::cast<gr::bf16>(x);
  const auto exact = evaluate(at.ctx, both, dy, gr::cast<float>(low));
  const auto rounded = evaluate(at.ctx, both, gr::cast<gr::bf16>(dy), low);
  CHECK(error_in_norm(rounded.y, exact.y) < 4e-3);
  CHECK(error_in_norm(std::get<0>(rounded.gradients), std::get<0>(exact.gradients)) < 6e-3);
}

TEST_CASE("a recorded max_pool2d keeps one byte for each output, and avg_pool2d nothing") {
  workplace at;
  gr::tape tape(at.ctx);
  const auto x = tape.variable(gr::ones<float, gr::shape<2, 3, 8, 8>>(at.ctx));
  const auto before = at.stats.all().live;
  const auto y = gr::max_pool2d<gr::pool{.size = 2}>(x);
  CHECK(at.stats.all().live - before == 2 * 3 * 4 * 4 * (sizeof(float) + 1));
  const auto between = at.stats.all().live;
  const auto z = gr::avg_pool2d<gr::pool{.size = 2}>(x);
  CHECK(at.stats.all().live - between == 2 * 3 * 4 * 4 * sizeof(float));
}

TEST_CASE("pooling is what the plain run computes in a checkpoint region, bit for bit") {
  workplace at;
  gr::tape tape(at.ctx);
  const auto x = normal<float, gr::shape<3, 2, 9, 9>>(at.ctx);
  const auto body = [](const auto& v) {
    return gr::max_pool2d<gr::pool{.size = 3, .stride = 2}>(
        gr::avg_pool2d<gr::pool{.size = 2, .stride = 1}>(gr::tanh(v)));
  };
  std::vector<std::vector<float>> gradients;
  for (const int how : {0, 1, 2}) {
    const auto v = tape.variable(x);
    const auto y = how == 0 ? body(v) : how == 1 ? gr::checkpoint(body, v) : gr::checkpoint<gr::save_all>(body, v);
    gr::backward(gr::sum(y * y));
    gradients.push_back(gr::to_host(v.gradient()));
  }
  CHECK(gradients[1] == gradients[0]);
  CHECK(gradients[2] == gradients[0]);
}

namespace {
constexpr std::size_t live_bytes_on_meta() {
  gr::meta_stream stream;
  gr::accounting memory;
  gr::context ctx{stream, memory};
  gr::tape tape{ctx};
  const auto x = tape.variable(gr::empty<float, gr::shape<gr::upto<64>, 3, 8, 8>>(ctx, 5));
  gr::backward(gr::sum(gr::adaptive_avg_pool2d<1, 1>(gr::max_pool2d<gr::pool{.size = 2}>(x))));
  return memory.peak_bytes();
}
static_assert(live_bytes_on_meta() > 64 * 3 * 8 * 8 * sizeof(float));
}  // namespace
