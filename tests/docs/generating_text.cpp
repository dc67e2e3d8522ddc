// The code of docs/guide/generating-text.md.
#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <gradus/generate/sampling.hpp>
#include <gradus/gradus.hpp>

namespace gr = gradus;
namespace {

constexpr gr::index_t width = 32, heads = 4, context = 24, vocabulary = 50, batch = 2;

// [model]
template <class X>
struct language_model {
  gr::nn::embedding<X, vocabulary, width> tokens;
  gr::nn::block<X, width, heads> block;
  GRADUS_MEMBERS(tokens, block)

  using cache = gr::nn::key_value_cache<X, 1, batch, heads, context, width / heads>;  // 1: layers

  auto operator()(const auto& ids) const {  // [B, T] -> logits [B, T, vocabulary]
    return gr::matmul<gr::transpose{.b = true}>(block(tokens(ids)), tokens.weight);
  }
  auto operator()(const auto& ids, cache& past) const {  // the same for T tokens behind those in the cache
    constexpr gr::index_t times = std::remove_cvref_t<decltype(ids)>::shape::extent(1);
    auto y = block(tokens(ids), past.layer(0, times));
    past.advance(times);
    return gr::matmul<gr::transpose{.b = true}>(y, tokens.weight);
  }
};
// [/model]

}  // namespace

TEST_CASE("a cache in a model of one's own") {
  gr::stream stream;
  gr::host_resource heap;
  gr::pool_resource pool{heap};
  gr::context ctx{stream, pool};
  using X = gr::on<gr::cpu>;
  language_model<X> net;
  gr::init(net, ctx, gr::normal_init{.seed = 1, .stddev = 0.3});
  // [write]
  gr::token_sampler sampler({.temperature = 0.8, .top_k = 40, .top_p = 0.95});
  language_model<X>::cache past{ctx};
  auto ids = gr::zeros<std::int32_t, gr::shape<batch, 1>>(ctx);  // two texts at once, which begin with token 0
  std::vector<std::int32_t> texts[batch];
  for (gr::index_t t = 0; past.room() > 0; ++t) {
    for (gr::index_t b = 0; b < batch; ++b) texts[b].push_back(ids(b, 0u));
    const auto logits = net(ids, past);  // [2, 1, vocabulary]: the work of one token each
    for (gr::index_t b = 0; b < batch; ++b) {
      const auto of_text = logits.values().subspan(b * vocabulary, vocabulary);
      const double draw =
          gr::uniform_float(gr::random_key{.seed = 7, .step = static_cast<std::uint32_t>(t)}.words(b)[0]);
      ids(b, 0u) = static_cast<std::int32_t>(sampler.choose(of_text, std::span<const std::int32_t>(), draw));
    }
  }
  // [/write]
  std::vector<std::int32_t> written;
  for (const auto& text : texts) written.insert(written.end(), text.begin(), text.end());
  const auto all = net(gr::from_host<std::int32_t, gr::shape<batch, context>>(ctx, written.data()));
  past.rewind(context - 1);
  std::array<std::int32_t, batch> last{written[context - 1], written[2 * context - 1]};
  const auto one = net(gr::from_host<std::int32_t, gr::shape<batch, 1>>(ctx, last.data()), past);
  for (gr::index_t i = 0; i < vocabulary; ++i) CHECK(one(1u, 0u, i) == all(1u, context - 1, i));
}
