#pragma once
// BERT with a classifier, from top to bottom. The blocks are gradus::nn::encoder_block: read nn/encoder.hpp for what is
// inside one.

#include <array>
#include <cstdint>
#include <utility>

#include <gradus/gradus.hpp>

namespace bert {

namespace gr = gradus;

/// The sizes of a model, fixed when it is compiled.
struct config {
  gr::index_t layers;
  gr::index_t heads;
  gr::index_t width;
  gr::index_t hidden;      ///< features inside a block's feed-forward part
  gr::index_t positions;   ///< longest sequence
  gr::index_t vocabulary;  ///< token ids 0 .. vocabulary-1
  gr::index_t segments;    ///< sentences of a pair
  gr::index_t labels;      ///< classes 0 .. labels-1
};

/// What BERT adds to the variance in its norms.
inline constexpr double norm_epsilon = 1e-12;

/// A batch of B sequences of T tokens, padded at their ends.
template <class D, gr::index_t B, gr::index_t T>
struct sequences {
  gr::tensor<std::int32_t, gr::shape<B, T>, D> tokens;
  gr::tensor<std::uint8_t, gr::shape<B, T>, D> segments;  ///< of each token: 0, or 1 in the second sentence of a pair
  gr::tensor<std::int32_t, gr::shape<B>, D> lengths;      ///< tokens that are no padding

  constexpr explicit sequences(gr::context<D>& ctx)
      : tokens(ctx, gr::category::input), segments(ctx, gr::category::input), lengths(ctx, gr::category::input) {}
};

/// Devlin et al. 2018 (BERT): token, segment and position embeddings, post-norm blocks, a pooler that reads the first
/// token, and a linear classifier.
/// @tparam X gradus::on<device, precision>
template <class X, config C>
struct model {
  using device = typename X::device;

  gr::nn::embedding<X, C.vocabulary, C.width> tokens;
  gr::param<X, C.positions, C.width> positions;
  gr::nn::embedding<X, C.segments, C.width> segments;
  gr::nn::layer_norm<X, C.width> norm{.eps = norm_epsilon};
  std::array<gr::nn::encoder_block<X, C.width, C.heads, C.hidden>, C.layers> blocks;
  gr::nn::linear<X, C.width, C.width> pooler;
  gr::nn::linear<X, C.width, C.labels> classifier;
  double dropout = 0;
  gr::region_schedule regions;  ///< which blocks keep what for backward; all of it unless set
  GRADUS_MEMBERS(tokens, positions, segments, norm, blocks, pooler, classifier)

  /// A batch -> one vector for each token, [B, T, width]. `ids` are the tokens of the batch: a tape watches them.
  template <gr::index_t B, gr::index_t T>
  constexpr auto hidden(const auto& ids, const sequences<device, B, T>& batch) const {
    static_assert(T <= C.positions, "bert: a sequence is longer than the model's positions");
    const auto here = [&] {
      if constexpr (T == C.positions) return gr::watch(positions, ids);
      else return gr::slice<0, T>(gr::watch(positions, ids), 0);
    };
    auto x = gr::dropout(norm(tokens(ids) + segments(gr::watch(batch.segments, ids)) + here()), dropout);
    const gr::attention_options<device> options{.dropout = dropout, .key_lengths = batch.lengths};
    return gr::chain(blocks, std::move(x), regions, [options, drop = dropout](const auto& block, auto v) {
      return block(std::move(v), options, drop);
    });
  }
  /// -> logits [B, labels].
  template <gr::index_t B, gr::index_t T>
  constexpr auto logits(const auto& ids, const sequences<device, B, T>& batch) const {
    const auto first = gr::reshape<B, C.width>(gr::slice<1, 1>(hidden(ids, batch), 0));
    return classifier(gr::dropout(gr::tanh(pooler(first)), dropout));
  }
  template <gr::index_t B, gr::index_t T>
  constexpr auto operator()(const sequences<device, B, T>& batch) const {
    return logits(batch.tokens, batch);
  }
  /// Mean cross-entropy, in nats, of labels [B]. Labels below 0 are not counted.
  template <gr::index_t B, gr::index_t T>
  constexpr auto loss(const auto& ids, const sequences<device, B, T>& batch, const auto& labels) const {
    return gr::cross_entropy(logits(ids, batch), labels);
  }
};

}  // namespace bert
