#include "device.hpp"
#include "mixture_cases.hpp"

TEST_CASE("grouped products, sorts by group and mixtures of experts on the GPU are the CPU's") {
  if (no_gpu()) return;
  agree(&mixture_on_cpu, [](auto& r) { mixture_cases(r); });
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
