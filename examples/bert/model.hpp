#pragma once
// An encoder of BERT's kind with its head, from top to bottom. The blocks are gradus::nn::encoder_block: read nn/encoder.hpp for what is
// inside one.

#include <array>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>

#include <gradus/gradus.hpp>

#include "architecture.hpp"

namespace bert {

namespace gr = gradus;

/// A batch of B sequences of T tokens, padded at their ends.
template <class D, gr::index_t B, gr::index_t T>
struct sequences {
  gr::tensor<std::int32_t, gr::shape<B, T>, D> tokens;
  gr::tensor<std::uint8_t, gr::shape<B, T>, D> segments;  ///< of each token: 0, or 1 in the second sentence of a pair
  gr::tensor<std::int32_t, gr::shape<B>, D> lengths;      ///< tokens that are no padding

  constexpr explicit sequences(gr::context<D>& ctx)
      : tokens(ctx, gr::category::input), segments(ctx, gr::category::input), lengths(ctx, gr::category::input) {}
};

/// A layer that a model may lack.
template <bool Has, class Layer>
using layer_if = std::conditional_t<Has, Layer, std::tuple<>>;

/// The scale of cosines in the contrastive loss (sentence-transformers' MultipleNegativesRankingLoss).
inline constexpr double similarity_scale = 20;

/// x in float, if it has 16 bits.
constexpr auto in_float(auto x) {
  if constexpr (sizeof(gr::value_of_t<decltype(x)>) < sizeof(float)) return gr::cast<float>(std::move(x));
  else return x;
}
/// x [..., n] in vectors of length 1.
constexpr auto unit_vectors(const auto& x) {
  return x * gr::rsqrt(gr::maximum(gr::sum<-1>(x * x, gr::keep_axes), 1e-24));
}

/// Devlin et al. 2018 (BERT): token, segment and position embeddings, post-norm blocks, and a head: a pooler that reads
/// the first token, and a linear classifier; or, for sentence embeddings, the mean of the tokens or the first one.
/// RoBERTa, XLM-R, DistilBERT and ALBERT (Lan et al. 2019) are other values of C.
/// @tparam X gradus::on<device, precision>
template <class X, config C>
struct model {
  using device = typename X::device;
  static constexpr gr::index_t table_width = C.embedding > 0 ? C.embedding : C.width;
  static constexpr bool shares_block = facts_of(C.family).shares_block;
  using block = gr::nn::encoder_block<X, C.width, C.heads, C.hidden, C.activation>;

  gr::nn::embedding<X, C.vocabulary, table_width> tokens;
  gr::param<X, C.positions, table_width> positions;
  layer_if<(C.segments > 0), gr::nn::embedding<X, C.segments, table_width>> segments;
  gr::nn::layer_norm<X, table_width> norm{.eps = facts_of(C.family).epsilon};
  layer_if<(C.embedding > 0), gr::nn::linear<X, table_width, C.width>> projection;
  std::array<block, shares_block ? 1 : C.layers> blocks;
  layer_if<!C.embeds(), gr::nn::linear<X, C.width, C.width>> pooler;
  layer_if<!C.embeds(), gr::nn::linear<X, C.width, C.labels>> classifier;
  double dropout = 0;
  bert::pooling pooling = bert::pooling::mean;  ///< of sentence embeddings
  bool normalized = false;                      ///< sentence embeddings have length 1
  gr::region_schedule regions;                  ///< which blocks keep what for backward; all of it unless set
  GRADUS_MEMBERS(tokens, positions, segments, norm, projection, blocks, pooler, classifier)

  constexpr model() { apply({.epsilon = facts_of(C.family).epsilon}); }
  constexpr bert::settings settings() const { return {norm.eps, pooling, normalized}; }
  constexpr void apply(const bert::settings& s) {
    norm.eps = s.epsilon;
    for (block& b : blocks) b.norm1.eps = b.norm2.eps = s.epsilon;
    pooling = s.pooling;
    normalized = s.normalized;
  }

  /// A batch -> one vector for each token, [B, T, width]. `ids` are the tokens of the batch: a tape watches them.
  template <gr::index_t B, gr::index_t T>
  constexpr auto hidden(const auto& ids, const sequences<device, B, T>& batch) const {
    static_assert(T <= C.longest(), "bert: a sequence is longer than the model's positions");
    const auto here = [&] {
      if constexpr (T == C.positions) return gr::watch(positions, ids);
      else return gr::slice<0, T>(gr::watch(positions, ids), C.first_position);
    };
    const auto sum = [&] {
      if constexpr (C.segments > 0) return tokens(ids) + segments(gr::watch(batch.segments, ids)) + here();
      else return tokens(ids) + here();
    };
    auto embedded = gr::dropout(norm(sum()), dropout);
    auto x = [&] {
      if constexpr (C.embedding > 0)  // in the type of the residual stream
        return gr::cast<gr::value_of_t<decltype(embedded)>>(projection(embedded));
      else return embedded;
    }();
    const gr::attention_options<device> options{.dropout = dropout, .key_lengths = batch.lengths};
    return gr::chain(block_numbers, std::move(x), regions,
                     [all = blocks.data(), options, drop = dropout](std::size_t number, auto v) {
                       return all[number](std::move(v), options, drop);
                     });
  }
  /// -> logits [B, labels].
  template <gr::index_t B, gr::index_t T>
  constexpr auto logits(const auto& ids, const sequences<device, B, T>& batch) const {
    constexpr family_facts facts = facts_of(C.family);
    const auto x = gr::dropout(first(hidden(ids, batch)), facts.drops_before_pooler ? dropout : 0);
    return classifier(gr::dropout(gr::nn::activate<facts.pooler>(pooler(x)), dropout));
  }
  /// -> sentence embeddings [B, width].
  template <gr::index_t B, gr::index_t T>
  constexpr auto embeddings(const auto& ids, const sequences<device, B, T>& batch) const {
    const auto x = hidden(ids, batch);
    if (pooling == bert::pooling::cls) return first(x);
    const auto ids_there = gr::watch(batch.tokens, x);  // recorded as x is: what follows is part of the step's memory
    const auto lengths = gr::watch(gr::reshape<B, 1>(batch.lengths), x);
    // 1, 2, ..., T in each row: up to its length, a token is one of the text.
    const auto number = gr::cumsum<1>(ids_there >= 0);
    const auto last = gr::cast<std::int64_t>(lengths);
    const auto real = gr::where(gr::reshape<B, T, 1>(number <= last), x, 0);
    const auto count = gr::cast<gr::value_of_t<decltype(x)>>(lengths);
    return gr::sum<1>(real) / count;
  }
  /// -> logits, or sentence embeddings.
  template <gr::index_t B, gr::index_t T>
  constexpr auto operator()(const sequences<device, B, T>& batch) const {
    if constexpr (!C.embeds()) return logits(batch.tokens, batch);
    else {
      auto x = in_float(embeddings(batch.tokens, batch));
      return normalized ? unit_vectors(x) : x;
    }
  }
  /// The mean loss of the task. Labels are [B]: classes, of which those below 0 are not counted, or numbers. For
  /// sentence embeddings the first half of the B sequences are the first texts of the pairs, and labels are [B / 2]:
  /// the score of a pair, or the row of its second text.
  template <gr::index_t B, gr::index_t T>
  constexpr auto loss(const auto& ids, const sequences<device, B, T>& batch, const auto& labels) const {
    if constexpr (C.task == task::classes) {
      return gr::cross_entropy(logits(ids, batch), labels);
    } else if constexpr (C.task == task::regression) {
      return gr::mse_loss(gr::reshape<B>(logits(ids, batch)), labels);
    } else {
      const auto [a, b] = gr::split<0, B / 2, B / 2>(unit_vectors(in_float(embeddings(ids, batch))));
      if constexpr (C.task == task::cosine) return gr::mse_loss(gr::sum<-1>(a * b), labels);
      else return gr::cross_entropy(gr::matmul<gr::transpose{.b = true}>(a, b) * similarity_scale, labels);
    }
  }

 private:
  static constexpr auto block_numbers = [] {
    std::array<std::size_t, C.layers> all{};
    for (std::size_t i = 0; i < C.layers && !shares_block; ++i) all[i] = i;
    return all;
  }();
  /// [B, T, width] -> the first tokens, [B, width].
  static constexpr auto first(const auto& x) {
    return gr::reshape<gr::tensor_of<decltype(x)>::shape::extents[0], C.width>(gr::slice<1, 1>(x, 0));
  }
};

}  // namespace bert
