#pragma once
// An encoder of BERT's kind with its head, from top to bottom. The blocks are gradus::nn::encoder_block: read
// nn/encoder.hpp for what is inside one.

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

/// B sequences of 1 to T tokens each, one behind the other in a row, so that no padding is computed.
template <class D, gr::index_t B, gr::index_t T>
struct sequences {
  static constexpr gr::index_t most = B * T;  ///< tokens of a row
  using row = gr::shape<1, gr::upto<most>>;

  gr::tensor<std::int32_t, row, D> tokens;
  gr::tensor<std::uint8_t, row, D> segments;       ///< of each token: 0, or 1 in the second sentence of a pair
  gr::nn::packed_rows<D, 1, gr::upto<most>> rows;  ///< each token's sequence, and its row in the table of positions
  gr::tensor<std::int32_t, gr::shape<gr::upto<most>>, D> numbers;  ///< of each token's sequence: 0 .. B-1
  gr::tensor<std::int32_t, gr::shape<B>, D> firsts;                ///< where each sequence begins

  constexpr explicit sequences(gr::context<D>& ctx)
      : tokens(ctx, most, gr::category::input),
        segments(ctx, most, gr::category::input),
        rows{{ctx, most, gr::category::input}, {ctx, most, gr::category::input}},
        numbers(ctx, most, gr::category::input),
        firsts(ctx, gr::category::input) {}
  /// Makes the row one of `count` tokens, in the same memory. Throws gr::error unless there are 1 to `most`.
  constexpr void resize(gr::index_t count) {
    const auto set = [&](auto&... x) { ((x = {x.storage(), count}), ...); };
    set(tokens, segments, rows.documents, rows.positions, numbers);
  }
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

  /// A batch -> one vector for each token, [1, tokens, width]. `ids` are the tokens of the batch: a tape watches them.
  template <gr::index_t B, gr::index_t T>
  constexpr auto hidden(const auto& ids, const sequences<device, B, T>& batch) const {
    static_assert(T <= C.longest(), "bert: a sequence is longer than the model's positions");
    const auto here = [&] { return gr::embedding(gr::watch(batch.rows.positions, ids), positions); };
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
    const gr::attention_options<device> options{.dropout = dropout, .documents = batch.rows.documents};
    return gr::chain(block_numbers, std::move(x), regions,
                     [all = blocks.data(), options, drop = dropout](std::size_t number, auto v) {
                       return all[number](std::move(v), options, drop);
                     });
  }
  /// -> logits [B, labels].
  template <gr::index_t B, gr::index_t T>
  constexpr auto logits(const auto& ids, const sequences<device, B, T>& batch) const {
    constexpr family_facts facts = facts_of(C.family);
    const auto x = gr::dropout(first(hidden(ids, batch), batch), facts.drops_before_pooler ? dropout : 0);
    return classifier(gr::dropout(gr::nn::activate<facts.pooler>(pooler(x)), dropout));
  }
  /// -> sentence embeddings [B, width].
  template <gr::index_t B, gr::index_t T>
  constexpr auto embeddings(const auto& ids, const sequences<device, B, T>& batch) const {
    const auto x = hidden(ids, batch);
    if (pooling == bert::pooling::cls) return first(x, batch);
    using V = gr::value_of_t<decltype(x)>;
    // Recorded as x is: what follows is part of the step's memory.
    auto zeros = gr::watch(gr::zeros<V, gr::shape<1, B, C.width>>(gr::plain(x).owner()), x);
    const auto count = gr::bincount<B>(gr::watch(batch.numbers, x));
    const auto sum = gr::index_add<1>(std::move(zeros), batch.numbers, x);
    return gr::reshape<B, C.width>(sum) / gr::cast<V>(gr::reshape<B, 1>(count));
  }
  /// -> logits, or sentence embeddings.
  constexpr auto outputs(const auto& ids, const auto& batch) const {
    if constexpr (C.embeds()) return in_float(embeddings(ids, batch));
    else return logits(ids, batch);
  }
  /// The same, without a recording.
  constexpr auto operator()(const auto& batch) const {
    auto x = outputs(batch.tokens, batch);
    if constexpr (C.embeds())
      if (normalized) x = unit_vectors(x);
    return x;
  }
  /// The mean loss of the task, of outputs of B sequences. Labels are [B]: classes, of which those below 0 are not
  /// counted, or numbers. For sentence embeddings the first half of the B sequences are the first texts of the pairs,
  /// and labels are [B / 2]: the score of a pair, or the row of its second text.
  static constexpr auto loss(auto outputs, const auto& labels) {
    constexpr gr::index_t B = gr::shape_of<decltype(outputs)>::extent(0);
    if constexpr (C.task == task::classes) {
      return gr::cross_entropy(std::move(outputs), labels);
    } else if constexpr (C.task == task::regression) {
      return gr::mse_loss(gr::reshape<B>(std::move(outputs)), labels);
    } else {
      const auto [a, b] = gr::split<0, B / 2, B / 2>(unit_vectors(outputs));
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
  /// [1, tokens, width] -> the first token of each sequence, [B, width].
  template <gr::index_t B, gr::index_t T>
  static constexpr auto first(const auto& x, const sequences<device, B, T>& batch) {
    return gr::reshape<B, C.width>(gr::index_select<1>(x, batch.firsts));
  }
};

}  // namespace bert
