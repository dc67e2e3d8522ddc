#include "device.hpp"
#include "mixture_cases.hpp"

TEST_CASE("grouped products, sorts by group and mixtures of experts on the GPU are the CPU's") {
  if (no_gpu()) return;
  agree(&mixture_on_cpu, [](auto& r) { mixture_cases(r); });
}

namespace {

/// y, dx and dw of a grouped product of floats, in the format Acc: of numbers of 11 bits, and of `more` in each weight.
template <class Acc>
std::vector<std::vector<float>> grouped_product(gpu& g, float more) {
  constexpr gr::index_t rows = 300, in = 96, out = 160, groups = 3;
  using on_gpu = gr::kernel<gr::op::grouped_matmul, gr::cuda>;
  std::mt19937 engine(1);
  const auto drawn = [&]<class S>(S, float other) {
    std::vector<float> values(S::size);
    for (float& v : values) v = static_cast<float>(1 + engine() % 31) + other;
    return gr::from_host<float, S>(g.ctx, values.data());
  };
  using X = gr::shape<rows, in>;
  using Y = gr::shape<rows, out>;
  using W = gr::shape<groups, in, out>;
  const auto x = drawn(X{}, 0);
  const auto dy = drawn(Y{}, 0);
  const auto w = drawn(W{}, more);
  const auto ends = gr::from_values<std::int32_t, gr::shape<groups + 1>>(g.ctx, {2, 131, 131, 299});
  auto y = gr::empty<float, Y>(g.ctx);
  auto dx = gr::ones<float, X>(g.ctx);
  auto dw = gr::ones<float, W>(g.ctx);
  constexpr gr::accumulate_in<Acc> format{};
  constexpr gr::group_sizes of{groups, rows, in, out};
  on_gpu::forward(format, g.ctx, y.data(), x.data(), w.data(), ends.data(), of);
  on_gpu::backward(gr::gradient_of<0>{}, format, g.ctx, dx.data(), true, dy.data(), w.data(), ends.data(), of);
  on_gpu::backward(gr::gradient_of<1>{}, format, g.ctx, dw.data(), true, dy.data(), x.data(), ends.data(), of);
  return {gr::to_host(y), gr::to_host(dx), gr::to_host(dw)};
}

}  // namespace

TEST_CASE("grouped products in TF32 are those of floats if their operands have 11 bits, and round others") {
  if (no_gpu()) return;
  gpu g;
  const auto whole = grouped_product<float>(g, 0);
  CHECK(grouped_product<gr::tf32_products>(g, 0) == whole);
  CHECK(grouped_product<gr::tf32_products>(g, 0x1p-14f) == whole);
  CHECK(grouped_product<float>(g, 0x1p-14f) != whole);
}

TEST_CASE("grouped_matmul takes more rows than a grid has in its second dimension, and more groups than in its third") {
  if (no_gpu()) return;
  gpu g;
  using on_gpu = gr::kernel<gr::op::grouped_matmul, gr::cuda>;
  constexpr gr::accumulate_in<float> in{};
  constexpr gr::index_t rows = (gr::index_t{1} << 22) + 1, groups = 65537;
  const auto x = gr::ones<float, gr::shape<rows, 1>>(g.ctx);
  auto y = gr::empty<float, gr::shape<rows, 1>>(g.ctx);
  const auto w = gr::from_values<float, gr::shape<1, 1, 1>>(g.ctx, {3});
  const auto last = gr::from_values<std::int32_t, gr::shape<2>>(g.ctx, {rows - 1, rows});
  on_gpu::forward(in, g.ctx, y.data(), x.data(), w.data(), last.data(), {1, rows, 1, 1});
  std::vector<float> expected(rows);
  expected.back() = 3;
  CHECK(gr::to_host(y) == expected);

  std::vector<std::int32_t> ends(groups + 1, 1);
  ends[0] = 0;
  ends[groups] = 3;
  const auto offsets = gr::from_host<std::int32_t, gr::shape<groups + 1>>(g.ctx, ends.data());
  auto dw = gr::empty<float, gr::shape<groups>>(g.ctx);
  on_gpu::backward(gr::gradient_of<1>{}, in, g.ctx, dw.data(), false, x.data(), x.data(), offsets.data(),
                   {groups, 3, 1, 1});
  std::vector<float> of_groups(groups);
  of_groups.front() = 1;
  of_groups.back() = 2;
  CHECK(gr::to_host(dw) == of_groups);
}

TEST_CASE("on a GPU, groups out of range are dropped, and offsets out of range cut off") {
  if (no_gpu()) return;
  gpu g;
  const auto order = gr::sort_by_group<2>(gr::from_values<std::int32_t, gr::shape<5>>(g.ctx, {1, -1, 0, 7, 1}));
  CHECK(gr::to_host(order.counts) == std::vector<std::int32_t>{1, 2});
  CHECK(gr::to_host(order.places) == std::vector<std::int32_t>{1, 3, 0, 4, 2});

  const auto x = gr::ones<float, gr::shape<4, 2>>(g.ctx);
  const auto w = gr::ones<float, gr::shape<2, 2, 1>>(g.ctx);
  const auto ends = gr::from_values<std::int32_t, gr::shape<3>>(g.ctx, {-3, 2, 9});
  CHECK(gr::to_host(gr::grouped_matmul(x, w, ends)) == std::vector<float>{2, 2, 2, 2});
}
