#include "device.hpp"
#include "layout_cases.hpp"

TEST_CASE(
    "permutations, slices, gathers, sorts, embeddings, casts and dropout on the GPU are the CPU's, masks bit for bit") {
  if (no_gpu()) return;
  agree(&layout_on_cpu, [](auto& r) { layout_cases(r); });
}

TEST_CASE("on a GPU an index out of range reads as NaN and adds nothing") {
  if (no_gpu()) return;
  gpu g;
  const auto at = gr::from_values<std::int32_t, gr::shape<1, 4>>(g.ctx, {1, 3, -1, 0});
  const auto x = gr::from_values<float, gr::shape<1, 3>>(g.ctx, {1, 2, 4});
  const auto y = gr::to_host(gr::gather<1>(x, at));
  CHECK(y[0] == 2);
  CHECK(std::isnan(y[1]));
  CHECK(std::isnan(y[2]));
  CHECK(y[3] == 1);
  const auto sum = gr::to_host(gr::scatter_add<1>(x, at, gr::ones<float, gr::shape<1, 4>>(g.ctx)));
  CHECK(sum == std::vector<float>{2, 3, 4});
}

TEST_CASE("on a GPU NaN is larger than all numbers, and 0 is equal to -0") {
  if (no_gpu()) return;
  gpu g;
  const auto x = gr::from_values<float, gr::shape<5>>(g.ctx, {-NAN, INFINITY, 0, -0.0f, -INFINITY});
  CHECK(gr::to_host(gr::argsort(x)) == std::vector<std::int32_t>{4, 2, 3, 1, 0});
  CHECK(gr::to_host(gr::topk<3>(x).second) == std::vector<std::int32_t>{0, 1, 2});
}
