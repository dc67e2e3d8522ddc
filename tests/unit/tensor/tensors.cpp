#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <gradus/gradus.hpp>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace gr = gradus;

namespace {
struct bench {
  gr::stream s;
  gr::host_resource heap;
  gr::stats_resource stats{heap};
  gr::context<gr::cpu> ctx{s, stats};
};
}  // namespace

TEST_CASE("copies of a tensor share elements, a clone has its own") {
  bench b;
  auto x = gr::from_values<float, gr::shape<2, 2>>(b.ctx, {1, 2, 3, 4});
  auto same = x;
  auto other = gr::clone(x);
  CHECK_FALSE(x.unique());
  CHECK(other.unique());
  x(0, 1) = 7;
  CHECK(same(0, 1) == 7);
  CHECK(other(0, 1) == 2);
}

TEST_CASE("a moved-from and a default tensor are empty, and memory goes back with the last copy") {
  bench b;
  {
    auto x = gr::zeros<double, gr::shape<10>>(b.ctx, gr::category::parameter);
    CHECK(b.stats.of(gr::category::parameter).live == 80);
    auto y = std::move(x);
    CHECK_FALSE(x);
    CHECK(y);
    CHECK(y.unique());
    CHECK_FALSE(gr::tensor<float, gr::shape<3>>());
  }
  CHECK(b.stats.all().live == 0);
}

TEST_CASE("creation functions fill what they promise") {
  bench b;
  CHECK(gr::to_host(gr::zeros<float, gr::shape<3>>(b.ctx)) == std::vector<float>{0, 0, 0});
  CHECK(gr::to_host(gr::ones<double, gr::shape<2>>(b.ctx)) == std::vector<double>{1, 1});
  CHECK(gr::to_host(gr::full<std::int32_t, gr::shape<2, 2>>(b.ctx, 5)) == std::vector<std::int32_t>{5, 5, 5, 5});
  CHECK(gr::to_host(gr::arange<std::int64_t, 4>(b.ctx)) == std::vector<std::int64_t>{0, 1, 2, 3});
  CHECK(gr::to_host(gr::from_values<bool, gr::shape<3>>(b.ctx, {true, false, true})) ==
        std::vector<bool>{true, false, true});
  CHECK(gr::item(gr::full<gr::bf16, gr::shape<>>(b.ctx, gr::bf16(1.5f))).bits == gr::bf16(1.5f).bits);
  const std::uint8_t bytes[] = {9, 8};
  CHECK(gr::to_host(gr::from_host<std::uint8_t, gr::shape<2>>(b.ctx, bytes)) == std::vector<std::uint8_t>{9, 8});
}

TEST_CASE("the bytes of a tensor are counted under the category asked for") {
  bench b;
  const auto x = gr::empty<gr::f16, gr::shape<3, 5>>(b.ctx, gr::category::input);
  CHECK(x.bytes == 30);
  CHECK(b.stats.of(gr::category::input).live == 30);
}

TEST_CASE("indices are row-major, outermost first, in tensors and in views") {
  bench b;
  auto x = gr::from_values<int, gr::shape<2, 3>>(b.ctx, {0, 1, 2, 3, 4, 5});
  CHECK(x(1, 2) == 5);
  CHECK(x.view()(1, 0) == 3);
  CHECK(std::as_const(x).view()[4] == 4);
  int sum = 0;
  for (const int v : x.view()) sum += v;
  CHECK(sum == 15);
  x.view()(0, 0) = 9;
  CHECK(x.values()[0] == 9);
}

TEST_CASE("an element of a temporary tensor is its value") {
  bench b;
  CHECK(gr::from_values<float, gr::shape<2, 2>>(b.ctx, {1, 2, 3, 4})(1, 0) == 3);
  static_assert(std::is_same_v<decltype(gr::full<float, gr::shape<>>(b.ctx, 2.0f)()), float>);
}

TEST_CASE("tensors may lie in parts of one buffer, and are not overwritten while others hold it") {
  bench b;
  gr::buffer<gr::cpu> flat(b.ctx, 128, gr::category::gradient);
  gr::tensor<float, gr::shape<2, 8>> x(flat.part(0, 64));
  gr::tensor<float, gr::shape<16>> y(flat.part(64, 64));
  CHECK(y.data() == x.data() + 16);
  for (std::size_t i = 0; i < 16; ++i) x.values()[i] = y.values()[i] = static_cast<float>(i);
  const float* const before = x.data();
  const auto more = std::move(x) * 2.0f;  // not in place: `flat` sees these bytes
  CHECK(more.data() != before);
  CHECK(before[3] == 3);
  flat = {};
  const float* const alone = y.data();
  const auto doubled = std::move(y) * 2.0f;  // nobody sees them any more
  CHECK(doubled.data() == alone);
  CHECK(doubled(5) == 10);
  CHECK(b.stats.of(gr::category::gradient).live == 128);
}

TEST_CASE("a buffer of another size makes no tensor") {
  bench b;
  const gr::buffer<gr::cpu> storage(b.ctx, 64, gr::category::gradient);
  CHECK_THROWS_WITH_AS((gr::tensor<float, gr::shape<17>>(storage)),
                       "tensor(storage): the buffer has 64 bytes; the tensor needs 68", gr::error);
  CHECK_THROWS_AS((gr::tensor<float, gr::shape<15>>(storage)), gr::error);
}

TEST_CASE("what is computed with parameters lives where the data lives, whichever comes first") {
  bench b;
  gr::stream s;
  gr::context persistent{s, b.heap};
  gr::param<gr::on<gr::cpu>, 3> w;
  w.set(gr::full<float, gr::shape<3>>(persistent, 2.0f, gr::category::parameter));
  const auto x = gr::full<float, gr::shape<3>>(b.ctx, 1.0f);
  CHECK(&(x * w).owner() == &b.ctx);
  CHECK(&(w * x).owner() == &b.ctx);
  CHECK(&(w * w).owner() == &persistent);
}

TEST_CASE("a scalar is indexed by nothing") {
  bench b;
  auto x = gr::full<float, gr::shape<>>(b.ctx, 2.0f);
  CHECK(x() == 2.0f);
}

TEST_CASE("running out of memory while making a tensor leaves nothing behind") {
  gr::stream s;
  gr::host_resource heap;
  gr::limit_resource limit(heap, 100);
  gr::context ctx{s, limit};
  const auto held = gr::zeros<float, gr::shape<20>>(ctx);
  CHECK_THROWS_AS((gr::zeros<float, gr::shape<20>>(ctx)), gr::out_of_memory);
  CHECK_THROWS_AS(gr::clone(held), gr::out_of_memory);
  CHECK(limit.live() == 80);
}

TEST_CASE("from_values takes a vector, an array or a span of as many values as the shape has elements") {
  gr::stream stream;
  gr::host_resource heap;
  gr::context ctx{stream, heap};
  const std::vector<float> six{1, 2, 3, 4, 5, 6};
  const auto x = gr::from_values<float, gr::shape<2, 3>>(ctx, six);
  CHECK(gr::to_host(x) == six);
  CHECK(gr::to_host(gr::from_values<float, gr::shape<3>>(ctx, std::span(six).first(3))) == std::vector<float>{1, 2, 3});
  CHECK(gr::to_host(gr::from_values<int, gr::shape<2>>(ctx, std::array{7, 8})) == std::vector<int>{7, 8});
  CHECK_THROWS_WITH_AS(
      (gr::from_values<float, gr::shape<2, 2>>(ctx, six)),
      "from_values<T, Shape>(ctx, values): 6 values for a shape of 4 elements; their numbers must be equal", gr::error);
}
