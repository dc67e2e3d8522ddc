// interpolate, index_add, expand_as, and minimum and maximum beside numbers: compositions and small additions.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "../../support/message_of.hpp"
#include "../../support/operands.hpp"

namespace gr = gradus;
using namespace gradus_test;

namespace {

// Images [planes, h, w] in the size H x W, by plain loops in double.
values resized(const values& x, int planes, int h, int w, int H, int W, bool bilinear) {
  values y;
  for (int p = 0; p < planes; ++p)
    for (int i = 0; i < H; ++i)
      for (int j = 0; j < W; ++j) {
        const auto pixel = [&](int r, int c) { return x[static_cast<std::size_t>((p * h + r) * w + c)]; };
        if (!bilinear) {
          y.push_back(pixel(i * h / H, j * w / W));
          continue;
        }
        const double r = std::max(0.0, (i + 0.5) * h / H - 0.5), c = std::max(0.0, (j + 0.5) * w / W - 0.5);
        const int r0 = static_cast<int>(r), c0 = static_cast<int>(c);
        const int r1 = std::min(r0 + 1, h - 1), c1 = std::min(c0 + 1, w - 1);
        const double a = r - r0, b = c - c0;
        y.push_back((1 - a) * ((1 - b) * pixel(r0, c0) + b * pixel(r0, c1)) +
                    a * ((1 - b) * pixel(r1, c0) + b * pixel(r1, c1)));
      }
  return y;
}

template <class T, int H, int W, class S>
void check_sizes(S, double tolerance) {
  workplace at;
  const auto x = normal<T, S>(at.ctx);
  const auto size = [](int axis) { return static_cast<int>(S::extent(axis)); };
  const auto wanted = [&](bool bilinear) {
    return resized(numbers(x), size(0) * size(1), size(2), size(3), H, W, bilinear);
  };
  CHECK(numbers(gr::interpolate<H, W>(x)) == wanted(false));
  const gr::tensor<T, gr::shape<S::extent(0), S::extent(1), H, W>> y =
      gr::interpolate<H, W, gr::interpolation::bilinear>(x);
  CHECK(worst_error(numbers(y), wanted(true)) < tolerance);
}

}  // namespace

TEST_CASE("interpolate agrees with plain loops: larger, smaller, by factors that are not whole, of one pixel") {
  check_sizes<float, 8, 10>(gr::shape<2, 3, 4, 5>{}, 1e-5);
  check_sizes<float, 7, 3>(gr::shape<1, 2, 5, 11>{}, 1e-5);
  check_sizes<double, 5, 19>(gr::shape<1, 1, 5, 7>{}, 1e-12);
  check_sizes<float, 1, 1>(gr::shape<3, 1, 6, 7>{}, 1e-5);
  check_sizes<float, 3, 4>(gr::shape<2, 1, 1, 1>{}, 1e-5);
  check_sizes<gr::bf16, 9, 6>(gr::shape<1, 2, 4, 13>{}, 8e-3);
}

TEST_CASE("index_add adds whole entries in order, also several to one place") {
  workplace at;
  const auto x = gr::from_values<float, gr::shape<3, 2>>(at.ctx, {10, 20, 30, 40, 50, 60});
  const auto rows = gr::from_values<std::int64_t, gr::shape<3>>(at.ctx, {2, 0, 2});
  const auto v = gr::from_values<float, gr::shape<3, 2>>(at.ctx, {1, 2, 3, 4, 5, 6});
  CHECK(gr::to_host(gr::index_add<0>(x, rows, v)) == std::vector<float>{13, 24, 30, 40, 56, 68});
  const auto columns = gr::from_values<std::uint8_t, gr::shape<1>>(at.ctx, {1});
  CHECK(gr::to_host(gr::index_add<1>(x, columns, gr::ones<float, gr::shape<3, 1>>(at.ctx))) ==
        std::vector<float>{10, 21, 30, 41, 50, 61});
  CHECK(message_of([&] { gr::index_add<1>(x, rows, gr::ones<float, gr::shape<3, 3>>(at.ctx)); }) ==
        "index_add: index 2 at position 0 is outside 0 .. 1");
  const auto some = gr::from_values<std::int64_t, gr::shape<gr::upto<4>>>(at.ctx, {2, 0}, 2);
  const auto entries = gr::ones<float, gr::shape<gr::upto<4>, 2>>(at.ctx, {3});
  CHECK(message_of([&] { gr::index_add<0>(x, some, entries); }) ==
        "index_add: axis 0 has 2 entries in one operand and 3 in another; they must be equal");
}

TEST_CASE("expand_as takes the extents of a bounded batch, and its gradient is the sum over them") {
  workplace at;
  using batch = gr::shape<gr::upto<9>, 2>;
  const auto y = gr::zeros<float, batch>(at.ctx, {3});
  gr::tape tape{at.ctx};
  const auto x = tape.variable(gr::from_values<float, gr::shape<2>>(at.ctx, {1, 2}));
  const auto rows = gr::expand_as(x, tape.watch(y));
  CHECK(rows.value().extent(0) == 3);
  CHECK(gr::to_host(rows.value()) == std::vector<float>{1, 2, 1, 2, 1, 2});
  gr::backward(gr::sum(rows * rows));
  CHECK(gr::to_host(x.gradient()) == std::vector<float>{6, 12});
  CHECK(message_of([&] { gr::expand_as(gr::zeros<float, batch>(at.ctx, {2}), y); }) ==
        "expand_as: axis 0 has 2 entries in one operand and 3 in another; they must be equal");
  CHECK(gr::to_host(gr::expand_as(gr::full<float, gr::shape<1, 2>>(at.ctx, 7), y)) == std::vector<float>(6, 7));
}

TEST_CASE("minimum and maximum beside a number: NaN comes through, integers limit it, the second gets the gradient") {
  workplace at;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto x = gr::from_values<float, gr::shape<4>>(at.ctx, {-1, 0.5f, 3, nan});
  const auto low = gr::to_host(gr::maximum(x, 0.5)), high = gr::to_host(gr::minimum(2, x));
  CHECK(std::vector<float>(low.begin(), low.begin() + 3) == std::vector<float>{0.5f, 0.5f, 3});
  CHECK(std::vector<float>(high.begin(), high.begin() + 3) == std::vector<float>{-1, 0.5f, 2});
  CHECK(std::isnan(low[3]));
  CHECK(std::isnan(high[3]));
  CHECK(std::isnan(gr::maximum(nan, x)(0)));
  CHECK(std::isnan(gr::maximum(x, nan)(0)));
  const auto bytes = gr::from_values<std::uint8_t, gr::shape<2>>(at.ctx, {7, 200});
  CHECK(gr::to_host(gr::minimum(bytes, 300)) == std::vector<std::uint8_t>{7, 200});
  CHECK(gr::to_host(gr::maximum(bytes, -1)) == std::vector<std::uint8_t>{7, 200});
  CHECK(gr::to_host(gr::maximum(100u, bytes)) == std::vector<std::uint8_t>{100, 200});
  gr::tape tape{at.ctx};
  const auto v = tape.variable(gr::from_values<float, gr::shape<3>>(at.ctx, {1, 2, 3}));
  gr::backward(gr::sum(gr::maximum(v, 2.0) + gr::maximum(2.0, v) + gr::minimum(v, 2.5)));
  CHECK(gr::to_host(v.gradient()) == std::vector<float>{1, 2, 2});
}
