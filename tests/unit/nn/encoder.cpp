#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <gradus/gradus.hpp>

#include "../../support/seed.hpp"

namespace gr = gradus;
namespace {

constexpr gr::index_t width = 12, heads = 3, hidden = 20;
using ids = gr::shape<2, 5, width>;

template <class X>
using block_of = gr::nn::encoder_block<X, width, heads, hidden>;

// Parameters of all kinds, norms and biases included, away from their starting values.
template <class X>
void draw(block_of<X>& block, gr::context<gr::cpu>& ctx, std::uint64_t seed) {
  gr::init(block, ctx, gr::normal_init{.seed = seed, .stddev = 0.3});
  std::uint32_t number = 0;
  gr::visit_params(block, [&]<class P>(P& p) {
    const auto more = gr::normal<typename P::value_type, typename P::shape>(ctx, {.seed = seed, .step = ++number});
    p.set(p.value() + more * 0.2);
  });
}

// Casts of activations that a recording applies.
struct cast_counter : gr::observer {
  std::size_t casts = 0;
  void begin(const gr::activity& what) override { casts += what.name == "cast" ? 1 : 0; }
  void end(const gr::activity&) override {}
};

}  // namespace

TEST_CASE("an encoder block has the parameters of BERT's layer, and norms with an epsilon of 1e-12") {
  block_of<gr::on<gr::cpu>> block;
  const std::vector<std::string> names = gr::param_names(block);
  CHECK(names == std::vector<std::string>{"attention.query.weight", "attention.query.bias", "attention.key.weight",
                                          "attention.key.bias", "attention.value.weight", "attention.value.bias",
                                          "attention.output.weight", "attention.output.bias", "norm1.weight",
                                          "norm1.bias", "mlp.up.weight", "mlp.up.bias", "mlp.down.weight",
                                          "mlp.down.bias", "norm2.weight", "norm2.bias"});
  CHECK(block.norm1.eps == 1e-12);
  CHECK(block.norm2.eps == 1e-12);
}

TEST_CASE("an encoder block is attention and a feed-forward part, each with a norm behind its residual sum") {
  gr::stream stream;
  gr::host_resource heap;
  gr::context ctx{stream, heap};
  const std::uint64_t seed = gradus_test::fresh_seed();
  CAPTURE(seed);
  block_of<gr::on<gr::cpu>> block;
  draw(block, ctx, seed);
  block.norm1.eps = 1e-3;
  const auto x = gr::normal<float, ids>(ctx, {.seed = seed});
  const gr::attention_options<gr::cpu> options{.key_lengths = gr::from_values<std::int32_t, gr::shape<2>>(ctx, {5, 3})};
  const auto product = [](const auto& v, const auto& layer) { return gr::linear(v, layer.weight, layer.bias); };
  const auto& a = block.attention;
  const auto attended =
      product(gr::attention<heads>(product(x, a.query), product(x, a.key), product(x, a.value), options), a.output);
  const auto y = gr::layer_norm(x + attended, block.norm1.weight, block.norm1.bias, 1e-3);
  const auto z = gr::layer_norm(y + product(gr::gelu_erf(product(y, block.mlp.up)), block.mlp.down), block.norm2.weight,
                                block.norm2.bias, 1e-12);
  CHECK(gr::to_host(block(x, options)) == gr::to_host(z));

  gr::tape tape{ctx, seed};  // dropout is for recorded values alone
  CHECK(gr::to_host(block(x, {.dropout = 0.4}, 0.4)) == gr::to_host(block(x)));
  CHECK(gr::to_host(block(tape.watch(x), {.dropout = 0.4}).value()) != gr::to_host(block(x)));
  CHECK(gr::to_host(block(tape.watch(x), {}, 0.4).value()) != gr::to_host(block(x)));
}

TEST_CASE("the gradient of an encoder block with padding is that of finite differences") {
  gr::stream stream;
  gr::host_resource heap;
  gr::context ctx{stream, heap};
  const std::uint64_t seed = gradus_test::fresh_seed();
  CAPTURE(seed);
  block_of<gr::on<gr::cpu, gr::fp64>> block;
  draw(block, ctx, seed);
  const auto x = gr::normal<double, ids>(ctx, {.seed = seed});
  const gr::attention_options<gr::cpu> options{.key_lengths = gr::from_values<std::int32_t, gr::shape<2>>(ctx, {5, 3})};
  const auto weights = gr::normal<double, ids>(ctx, {.seed = seed, .step = 1});
  const gr::gradcheck_result result =
      gr::gradcheck([&](const auto& v) { return gr::sum(block(v, options) * weights); }, x);
  CHECK_MESSAGE(result.ok, result.message);
}

TEST_CASE("the three products of self-attention read one copy in 16 bits") {
  gr::stream stream;
  gr::host_resource heap;
  gr::context ctx{stream, heap};
  gr::nn::self_attention<gr::on<gr::cpu, gr::bf16_mixed>, width, heads> attention;
  gr::init(attention, ctx, gr::normal_init{.seed = 1});
  const auto x = gr::normal<float, ids>(ctx, {.seed = 2});
  gr::tape tape{ctx};
  const auto recorded = tape.watch(x);
  cast_counter counter;
  ctx.observe(&counter);
  const auto y = attention(recorded);
  ctx.observe(nullptr);
  CHECK(counter.casts == 1);
  CHECK(gr::to_host(y.value()) == gr::to_host(attention(gr::cast<gr::bf16>(x))));
}
