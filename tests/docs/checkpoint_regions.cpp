// The code that docs/guide/checkpoint-regions.md quotes.
#include <doctest/doctest.h>

#include <gradus/gradus.hpp>

namespace gr = gradus;

TEST_CASE("checkpoint-regions.md") {
  gr::stream stream;
  gr::host_resource heap;
  gr::context ctx{stream, heap};
  gr::nn::mlp<gr::on<gr::cpu>, 16> mlp;
  gr::init(mlp, ctx, gr::xavier_normal{});
  gr::tape tape{ctx};
  auto x = tape.watch(gr::full<float, gr::shape<4, 16>>(ctx, 0.5f));
  // [region]
  auto y = gr::checkpoint([&](auto v) { return v + mlp(v); }, x);
  // [/region]
  // [policies]
  y = gr::checkpoint<gr::save_only<gr::op::matmul>>([&](auto v) { return v + mlp(v); }, y);
  y = gr::checkpoint(
      gr::save_if([](const gr::region_op& op) { return op.bytes < 1024; }), [&](auto v) { return v + mlp(v); }, y);
  // [/policies]
  // [offload]
  gr::host_resource host_memory;
  gr::offload_to(ctx, host_memory);  // on a GPU: pinned memory without this call
  for (int layer = 0; layer < 3; ++layer)
    y = gr::checkpoint<gr::offload_only<gr::op::matmul>>([&](auto v) { return v + mlp(v); }, y);
  // [/offload]
  gr::backward(gr::mean(y));
  CHECK(mlp.up.weight.gradient());
}
