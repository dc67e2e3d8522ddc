#pragma once
// The same model a few tokens at a time, with a key-value cache: for text that is being written.

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "model.hpp"

namespace gpt {

/// What keeps keys and values of a model for `Batch` sequences.
template <class X, config C, gr::index_t Batch>
using cache = gr::nn::key_value_cache<X, C.layers, Batch, C.heads, C.context, C.width / C.heads>;

/// net.hidden(ids) for new tokens [B, T] behind those in the cache, of which the first `count` are real -> [B, T,
/// width]. The cache then has them, too. Throws gradus::error where there is no room for them.
template <class X, config C, gr::index_t Batch, gr::index_t Times>
auto hidden(const model<X, C>& net, const gr::tensor<std::int32_t, gr::shape<Batch, Times>, typename X::device>& ids,
            cache<X, C, Batch>& past, gr::index_t count) {
  std::array<std::int32_t, Times> at{};
  for (gr::index_t t = 0; t < Times; ++t)
    at[t] = static_cast<std::int32_t>(std::min(past.position() + t, C.context - 1));
  const auto times = gr::from_host<std::int32_t, gr::shape<Times>>(ids.owner(), at.data());
  auto x = net.tokens(ids) + gr::embedding(times, net.positions);
  for (gr::index_t i = 0; i < C.layers; ++i) x = net.blocks[i](std::move(x), past.layer(i, count));
  past.advance(count);
  return net.norm(std::move(x));
}

/// Logits [B, padded vocabulary] of the token that comes behind the first `count` of `ids`, which come behind those in
/// the cache.
template <class X, config C, gr::index_t Batch, gr::index_t Times>
auto next(const model<X, C>& net, const gr::tensor<std::int32_t, gr::shape<Batch, Times>, typename X::device>& ids,
          cache<X, C, Batch>& past, gr::index_t count) {
  std::array<std::int32_t, Batch> last{};
  for (gr::index_t b = 0; b < Batch; ++b) last[b] = static_cast<std::int32_t>(b * Times + count - 1);
  const auto rows = gr::reshape<Batch * Times, C.width>(hidden(net, ids, past, count));
  const auto seen = gr::embedding(gr::from_host<std::int32_t, gr::shape<Batch>>(ids.owner(), last.data()), rows);
  return gr::matmul<gr::transpose{.b = true}>(seen, net.tokens.weight);
}

}  // namespace gpt
