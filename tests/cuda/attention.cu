#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <type_traits>
#include <utility>
#include <vector>

#include "attention_cases.hpp"
#include "device.hpp"

TEST_CASE("attention on the GPU has the CPU's values and gradients") {
  if (no_gpu()) return;
  agree(&attention_on_cpu, [](auto& r) { attention_cases(r); });
}

namespace {

/// dq, dk and dv of three heads, by whole heads in two blocks, and by tiles.
template <class T, bool Causal, gr::index_t Queries, gr::index_t Keys, gr::index_t Depth>
void heads_and_tiles(gr::context<gr::cuda>& ctx) {
  constexpr int heads = 3;
  using of_queries = gr::shape<1, heads, Queries, Depth>;
  using of_keys = gr::shape<1, heads, Keys, Depth>;
  static constexpr gr::cuda_kit::attention_launches<float, T, Depth, Causal> launches{1, heads, Queries, Keys};
  std::mt19937 random(gradus_test::fresh_seed());
  std::normal_distribution<float> normal;
  const auto draw = [&]<class S>(S) {
    std::vector<T> values(S::size);
    for (T& x : values) x = T(normal(random));
    return gr::from_host<T, S>(ctx, values.data());
  };
  const auto at = [](auto& x, bool accumulate) {
    using S = typename std::remove_cvref_t<decltype(x)>::shape;
    return gr::attention_operand<std::remove_pointer_t<decltype(x.data())>>{x.data(), S::stride(0), S::stride(1),
                                                                            S::stride(2), accumulate};
  };
  const auto q = draw(of_queries{}), dy = draw(of_queries{});
  const auto k = draw(of_keys{}), v = draw(of_keys{});
  auto y = gr::empty<T, of_queries>(ctx);
  auto lse = gr::empty<float, gr::shape<heads, Queries>>(ctx);
  launches.forward(ctx, at(y, false), lse.data(), at(q, false), at(k, false), at(v, false));
  const auto gradients = [&](unsigned by_heads) {
    auto dq = gr::empty<T, of_queries>(ctx);
    auto dk = gr::empty<T, of_keys>(ctx), dv = gr::empty<T, of_keys>(ctx);
    for (const bool accumulate : {false, true})
      launches.backward(ctx, by_heads, at(dq, accumulate), at(dk, accumulate), at(dv, accumulate),
                        at(std::as_const(dy), false), at(q, false), at(k, false), at(v, false),
                        at(std::as_const(y), false), lse.data());
    return std::array{gr::to_host(dq), gr::to_host(dk), gr::to_host(dv)};
  };
  CHECK(gradients(2) == gradients(0));
}

}  // namespace

TEST_CASE("attention's gradients have the same bits by whole heads and by tiles") {
  if (no_gpu()) return;
  gpu device;
  heads_and_tiles<gr::bf16, true, 200, 200, 64>(device.ctx);
  heads_and_tiles<gr::f16, false, 33, 150, 24>(device.ctx);
}

TEST_CASE("documents that are none, which the host cannot check on a GPU, are clamped") {
  if (no_gpu()) return;
  gpu device;
  using X = gr::shape<2, 100, 8>;
  std::mt19937 random(gradus_test::fresh_seed());
  std::uniform_int_distribution<std::int32_t> anything(-150, 150);
  std::vector<std::int32_t> pairs(2 * 100 * 2);
  for (auto& x : pairs) x = anything(random);
  pairs[0] = std::numeric_limits<std::int32_t>::min();
  pairs[1] = std::numeric_limits<std::int32_t>::max();
  const auto documents = gr::from_host<std::int32_t, gr::shape<2, 100, 2>>(device.ctx, pairs.data());
  gr::tape tape{device.ctx};
  const auto x = tape.variable(gr::full<float, X>(device.ctx, 0.5f));
  const auto y = gr::attention<2>(x, x, x, {.documents = documents});
  for (const float v : gr::to_host(y.value())) REQUIRE((v == 0 || std::abs(v - 0.5f) < 1e-6f));
  gr::backward(gr::sum(y));
  for (const float v : gr::to_host(x.gradient())) REQUIRE(std::isfinite(v));
}

TEST_CASE("attention to a cache of one part or several is NaN where a query is") {
  if (no_gpu()) return;
  gpu device;
  constexpr gr::index_t depth = 8;
  using X = gr::shape<1, 1, 3 * depth>;
  for (const gr::index_t past : {5, 300}) {
    gr::nn::key_value_cache<gr::on<gr::cuda>, 1, 1, 1, 400, depth> cache(device.ctx);
    const auto before = gr::full<float, gr::shape<1, 300, 3 * depth>>(device.ctx, 0.5f);
    static_cast<void>(gr::causal_attention<1>(before, cache.layer(0, past)));
    cache.advance(past);
    std::vector<float> values(X::size, 0.5f);
    CHECK(gr::to_host(gr::causal_attention<1>(gr::from_host<float, X>(device.ctx, values.data()),
                                              cache.layer(0, 1)))[3] == 0.5f);
    values[0] = std::numeric_limits<float>::quiet_NaN();
    CHECK(std::isnan(gr::to_host(
        gr::causal_attention<1>(gr::from_host<float, X>(device.ctx, values.data()), cache.layer(0, 1)))[3]));
  }
}

TEST_CASE("attention takes whole heads where they fill the GPU's multiprocessors") {
  using launches = gr::cuda_kit::attention_launches<float, gr::bf16, 64, true>;
  constexpr std::size_t mebibyte = std::size_t{1} << 20;
  CHECK(launches{64, 12, 1024, 1024}.head_blocks(108, 40 * mebibyte) == 108);
  CHECK(launches{8, 12, 1024, 1024}.head_blocks(108, 40 * mebibyte) == 96);
  CHECK(launches{10, 12, 1024, 1024}.head_blocks(108, 40 * mebibyte) == 0);    // the second turn would be for 12
  CHECK(launches{64, 12, 2048, 2048}.head_blocks(108, 40 * mebibyte) == 0);    // 54 MiB of sums
  CHECK(launches{16, 12, 1024, 1024}.head_blocks(108, 40 * mebibyte) == 108);  // as scripts/cuda_cost.py expects
  CHECK(launches{16, 12, 1024, 1024}.head_blocks(132, 50 * mebibyte) == 0);    // an H100
  CHECK(launches{64, 12, 1024, 1024}.head_blocks(82, 6 * mebibyte) == 0);      // an RTX 3090: 20.5 MiB
  CHECK(launches{64, 12, 1024, 1024}.head_blocks(170, 96 * mebibyte) == 170);  // an RTX 5090: 42.5 MiB
}
