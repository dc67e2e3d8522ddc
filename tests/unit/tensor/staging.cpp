#include <doctest/doctest.h>

#include <gradus/gradus.hpp>
#include <gradus/planning.hpp>
#include <vector>

namespace gr = gradus;

TEST_CASE("a staging buffer takes tensors to the host and back, each at its place") {
  gr::stream s;
  gr::host_resource heap;
  gr::context<gr::cpu> ctx{s, heap};
  gr::staging_buffer<float, gr::cpu> staged(ctx, 6);
  const auto pair = gr::from_values<float, gr::shape<2>>(ctx, {1, 2});
  const auto four = gr::from_values<float, gr::shape<2, 2>>(ctx, {3, 4, 5, 6});
  staged.download(four, 2);
  staged.download(pair);
  CHECK(staged.arrived());
  const auto values = staged.values();
  CHECK(std::vector<float>(values.begin(), values.end()) == std::vector<float>{1, 2, 3, 4, 5, 6});
  auto other = gr::empty<float, gr::shape<3>>(ctx);
  staged.upload(other, 3);
  CHECK(gr::to_host(other) == std::vector<float>{4, 5, 6});

  // Not known to the compiler, which may warn of them otherwise.
  const volatile gr::index_t fifth = 5, fourth = 4, before = static_cast<gr::index_t>(-1);
  CHECK_THROWS_WITH_AS(staged.download(pair, fifth),
                       "staging_buffer: a tensor of 2 elements at 5 does not fit into 6 values", gr::error);
  CHECK_THROWS_WITH_AS(staged.upload(other, fourth),
                       "staging_buffer: a tensor of 3 elements at 4 does not fit into 6 values", gr::error);
  CHECK_THROWS_AS(staged.upload(other, before), gr::error);
}

TEST_CASE("where nothing is computed a staging buffer holds nothing") {
  constexpr bool empty = [] {
    gr::meta_stream s;
    gr::accounting memory;
    gr::context<gr::meta> ctx{s, memory};
    gr::staging_buffer<float, gr::meta> staged(ctx, 6);
    gr::tensor<float, gr::shape<2>, gr::meta> x(ctx);
    staged.download(x, 100);
    staged.upload(x);
    return staged.arrived() && staged.values().empty() && memory.peak_bytes() == 8;
  }();
  CHECK(empty);
}
