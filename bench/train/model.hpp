#pragma once
// The GPT of examples/gpt/model.hpp with and without the techniques that shape a model.

#include <array>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include <gradus/gradus.hpp>

#include "sizes.hpp"
#include "techniques.hpp"

namespace bench {

/// The operations of a model, fused as the library has them or composed of elementary ones.
template <techniques T>
struct operations {
  static constexpr auto linear(auto&& x, const auto& layer) {
    if constexpr (T.fused_operations) return layer(std::forward<decltype(x)>(x));
    else return gr::matmul(std::forward<decltype(x)>(x), layer.weight) + layer.bias;
  }
  static constexpr auto norm(const auto& x, const auto& layer) {
    if constexpr (T.fused_operations) return layer(x);
    else {
      const auto centred = x - gr::mean<-1>(x, gr::keep_axes);
      const auto variance = gr::mean<-1>(centred * centred, gr::keep_axes);
      return centred * gr::rsqrt(variance + 1e-5) * layer.weight + layer.bias;
    }
  }
  static constexpr auto gelu(auto&& x) {
    if constexpr (T.fused_operations) return gr::gelu(std::forward<decltype(x)>(x));
    else return x * 0.5 * (gr::tanh((x + x * x * x * 0.044715) * 0.7978845608028654) + 1.0);
  }
  static constexpr auto softmax(const auto& x) {
    if constexpr (T.fused_operations) return gr::softmax(x);
    else {
      const auto e = gr::exp(x - gr::max<-1>(x, gr::keep_axes));
      return e / gr::sum<-1>(e, gr::keep_axes);
    }
  }
  /// [Time, Time]: 0 on and below the diagonal, minus infinity above it.
  template <class V, gr::index_t Time>
  static constexpr auto causal_mask(auto& ctx) {
    std::vector<V> host(Time * Time, V(0.0f));
    for (gr::index_t i = 0; i < Time; ++i)
      for (gr::index_t j = i + 1; j < Time; ++j) host[i * Time + j] = V(-std::numeric_limits<float>::infinity());
    return gr::from_host<V, gr::shape<Time, Time>>(ctx, host.data(), gr::category::temporary);
  }
  template <gr::index_t Heads>
  static constexpr auto attention(const auto& qkv) {
    if constexpr (T.flash_attention) return gr::causal_attention<Heads>(qkv);
    else {
      using s = gr::shape_of<decltype(qkv)>;
      constexpr gr::index_t batch = s::extent(0), time = s::extent(1), width = s::extent(2) / 3, depth = width / Heads;
      const auto part = [&](auto which) {
        return gr::permute<0, 2, 1, 3>(
            gr::reshape<batch, time, Heads, depth>(gr::slice<2, decltype(which)::value * width, width>(qkv)));
      };
      const auto scores =
          gr::matmul<gr::transpose{.b = true}>(part(at<0>{}), part(at<1>{})) * gr::detail::inverse_square_root(depth);
      const auto masked = scores + causal_mask<gr::value_of_t<decltype(qkv)>, time>(gr::plain(qkv).owner());
      return gr::reshape<batch, time, width>(gr::permute<0, 2, 1, 3>(gr::matmul(softmax(masked), part(at<2>{}))));
    }
  }
  /// Mean cross-entropy of logits [B, T, V]. `entries` are the places of the targets' logits among all B * T * V of
  /// them.
  static constexpr auto cross_entropy(const auto& logits, const auto& entries) {
    constexpr gr::index_t all = gr::shape_of<decltype(logits)>::size;
    const auto centred = logits - gr::max<-1>(logits, gr::keep_axes);
    const auto norms = gr::log(gr::sum<-1>(gr::exp(centred)));
    return gr::mean(norms) - gr::mean(gr::embedding(entries, gr::reshape<all, 1>(centred)));
  }

 private:
  template <gr::index_t I>
  using at = std::integral_constant<gr::index_t, I>;
};

/// nn::block, by the operations of T.
template <class X, sizes S, techniques T>
struct block : gr::nn::block<X, S.width, S.heads, S.layers> {
  using base = gr::nn::block<X, S.width, S.heads, S.layers>;
  GRADUS_MEMBERS(base::norm1, base::attention, base::norm2, base::mlp)
  using by = operations<T>;

  constexpr auto operator()(auto x) const {
    auto y = x + by::linear(by::template attention<S.heads>(by::linear(by::norm(x, this->norm1), this->attention.qkv)),
                            this->attention.projection);
    return y + by::linear(by::gelu(by::linear(by::norm(y, this->norm2), this->mlp.up)), this->mlp.down);
  }
};

struct no_head {};

/// @tparam X gradus::on<device, precision>
template <class X, sizes S, techniques T>
struct model {
  static constexpr gr::index_t rows = T.padded_vocabulary ? S.padded_vocabulary() : S.vocabulary;
  using by = operations<T>;

  gr::nn::embedding<X, rows, S.width> tokens;
  gr::param<X, S.context, S.width> positions;
  std::array<block<X, S, T>, S.layers> blocks;
  gr::nn::layer_norm<X, S.width> last_norm;
  std::conditional_t<T.tied_weights, no_head, gr::param<X, rows, S.width>> own_head;
  gr::region_schedule regions;
  GRADUS_MEMBERS(tokens, positions, blocks, last_norm, own_head)

  constexpr const auto& head() const {
    if constexpr (T.tied_weights) return tokens.weight;
    else return own_head;
  }
  /// Mean cross-entropy of predicting `targets` [B, T] from `ids` [B, T]; `entries` as for operations::cross_entropy.
  constexpr auto loss(const auto& ids, const auto& targets, [[maybe_unused]] const auto& entries) const {
    auto x = tokens(ids) + positions;
    if constexpr (T.checkpoint)
      x = gr::chain(blocks, std::move(x), regions, [](const auto& b, auto v) { return b(std::move(v)); });
    else
      for (const auto& b : blocks) x = b(std::move(x));
    auto hidden = by::norm(x, last_norm);
    if constexpr (T.fused_loss) return gr::linear_cross_entropy<S.vocabulary>(std::move(hidden), head(), targets);
    else if constexpr (T.fused_operations)
      return gr::cross_entropy<S.vocabulary>(gr::matmul<gr::transpose{.b = true}>(std::move(hidden), head()), targets);
    else return by::cross_entropy(gr::matmul<gr::transpose{.b = true}>(std::move(hidden), head()), entries);
  }
};

}  // namespace bench
