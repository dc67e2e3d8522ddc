#pragma once
// Attention on the CPU, one block of queries: loops over the blocks of keys, in forward and backward.

#include <algorithm>
#include <cmath>

#include "../../core/config.hpp"
#include "cpu_blocks.hpp"
#include "options.hpp"

namespace gradus::cpu_kit::inline GRADUS_BUILD {

/// Scratch of one task of forward.
template <class B>
struct attention_forward_scratch {
  alignas(64) typename B::word qt[B::words(B::depth) * B::query_block];
  alignas(64) typename B::word keys[B::max_key_block * B::words(B::width)];
  alignas(64) typename B::word values[B::words(B::max_key_block) * B::width];
  alignas(64) typename B::number scores[B::max_key_block * B::query_block];
  typename B::template pair_buffer<B::words(B::max_key_block) * B::query_block> weights;
  alignas(64) typename B::number sums[B::query_block * B::width];
  alignas(64) typename B::number row_max[B::query_block];
  alignas(64) typename B::number row_sum[B::query_block];
  alignas(64) typename B::number rescale[B::query_block];
};
template <class B>
struct attention_backward_scratch {
  alignas(64) typename B::word qs[B::query_block * B::words(B::width)];
  alignas(64) typename B::word dys[B::query_block * B::words(B::width)];
  typename B::template pair_buffer<B::words(B::query_block) * B::width> qs_across, dys_across;
  alignas(64) typename B::number dqs[B::query_block * B::width];
  alignas(64) typename B::word qt[B::words(B::depth) * B::query_block];
  alignas(64) typename B::word dyt[B::words(B::depth) * B::query_block];
  alignas(64) typename B::word keys[B::max_key_block * B::words(B::width)];
  typename B::template pair_buffer<B::words(B::max_key_block) * B::width> keys_across;
  alignas(64) typename B::word values[B::max_key_block * B::words(B::width)];
  alignas(64) typename B::number tile[B::max_key_block * B::width];
  alignas(64) typename B::number weights[B::max_key_block * B::query_block];
  alignas(64) typename B::number dscores[B::max_key_block * B::query_block];
  typename B::template pair_buffer<B::max_key_block * B::words(B::query_block)> weights_along, dscores_along;
  typename B::template pair_buffer<B::words(B::max_key_block) * B::query_block> dscores_across;
  alignas(64) typename B::number row_lse[B::query_block];
  alignas(64) typename B::number row_delta[B::query_block];
};

// Forward for `queries` queries from time q0 on; `out`, `lse` and `q` point to the first of them.
template <class B, class Head, class C, class T>
void attention_forward_block(attention_forward_scratch<B>& scratch, Head head, index_t key_block, index_t q0,
                             index_t queries, attention_operand<T> out, C* lse, attention_operand<const T> q,
                             attention_operand<const T> k, attention_operand<const T> v) {
  const index_t packs = B::padded(queries) / lanes<C>;
  const index_t rows = (queries + 1) / 2 * 2;  // a block_product needs an even number of rows
  auto& [qt, keys, values, scores, second_weights, sums, row_max, row_sum, rescale] = scratch;
  typename B::word* const weights = second_weights.data_or(B::as_words(scores));
  B::load_rows(B::as_words(sums), q.data, q.time, queries, packs * lanes<C>);
  B::transpose_rows(qt, B::as_words(sums), packs, head.scale());
  if (Head::starts_at_zero) std::fill_n(sums, rows * B::width, C(0));
  std::fill_n(row_max, B::query_block, B::lowest);
  std::fill_n(row_sum, B::query_block, C(0));
  const index_t end = head.end_key(q0, queries);
  for (index_t j0 = head.first_key(q0), count; j0 < end; j0 += count) {
    count = std::min(key_block, head.end_block(j0, end) - j0);
    if (!head.enter(q0, queries, j0, count)) continue;
    const index_t p0 = head.first_query(q0, j0) / lanes<C>;
    const index_t i0 = p0 * lanes<C>;
    B::load_rows(keys, k.data + j0 * k.time, k.time, count, B::fours(count));
    if constexpr (B::pairs) B::load_row_pairs(values, v.data + j0 * v.time, v.time, count);
    else B::load_rows(values, v.data + j0 * v.time, v.time, count, count);
    const index_t p1 = B::padded(head.end_query(q0, queries, j0 + count)) / lanes<C>,
                  i1 = std::min(rows, p1 * lanes<C>);
    B::on_queries::run(B::fours(count), p1 - p0, B::words(B::depth), keys, B::words(B::width), 1, qt + i0, scores + i0,
                       false);
    for (index_t p = p0; p < p1; ++p) {
      const index_t i = p * lanes<C>;
      C *const at = scores + i, *const max = row_max + i, *const sum = row_sum + i, *const by = rescale + i;
      head.scores(q0, i, j0, count,
                  [&](const auto& from) { B::softmax_step(from, at, weights + i, count, max, sum, by); });
    }
    if (head.adds(j0))
      for (index_t i = i0; i < i1; ++i)
        for (index_t d = 0; d < B::width; d += lanes<C>)
          (pack<C>::load(sums + i * B::width + d) * pack<C>(rescale[i])).store(sums + i * B::width + d);
    B::on_depth::run(i1 - i0, B::width / lanes<C>, B::words(count), weights + i0, 1, B::query_block, values,
                     sums + i0 * B::width, head.adds(j0));
  }
  for (index_t i = 0; i < queries; ++i) {
    B::store_rows(out.data + i * out.time, 0, sums + i * B::width, 1, head.weight_sum_inverse(row_sum[i]), false);
    if (lse != nullptr) lse[i] = row_max[i] + std::log(row_sum[i]);
  }
}

// Backward for `queries` queries from q0 on and the keys from .. to - 1. `dbias`, of the head's bias, may be null.
template <class B, class Head, class C, class T, class OfKeys>
void attention_backward_block(attention_backward_scratch<B>& scratch, Head head, index_t key_block, index_t q0,
                              index_t queries, index_t from, index_t to, attention_operand<T> dq,
                              attention_operand<OfKeys> dk, attention_operand<OfKeys> dv, [[maybe_unused]] C* dbias,
                              const attention_inputs<C, T>& inputs) {
  const auto& [dy, q, k, v, y, lse] = inputs;
  const index_t packs = B::padded(queries) / lanes<C>;
  auto& [qs, dys, second_qs, second_dys, dqs, qt, dyt, keys, second_keys, values, tile, weights, dscores,
         second_weights, second_dscores, third_dscores, row_lse, row_delta] = scratch;
  typename B::word* const qs_across = second_qs.data_or(qs);
  typename B::word* const dys_across = second_dys.data_or(dys);
  typename B::word* const keys_across = second_keys.data_or(keys);
  typename B::word* const weights_along = second_weights.data_or(B::as_words(weights));
  typename B::word* const dscores_along = second_dscores.data_or(B::as_words(dscores));
  typename B::word* const dscores_across = third_dscores.data_or(B::as_words(dscores));
  std::fill_n(row_lse, B::query_block, C(0));
  std::fill_n(row_delta, B::query_block, C(0));
  B::load_rows(qs, q.data + q0 * q.time, q.time, queries, packs * lanes<C>);
  B::load_rows(dys, dy.data + q0 * dy.time, dy.time, queries, packs * lanes<C>);
  B::load_row_pairs(qs_across, q.data + q0 * q.time, q.time, queries);
  B::load_row_pairs(dys_across, dy.data + q0 * dy.time, dy.time, queries);
  B::transpose_rows(qt, qs, packs, head.scale());
  B::transpose_rows(dyt, dys, packs, C(1));
  std::copy_n(lse + q0, queries, row_lse);
  for (index_t i = 0; i < queries; ++i) {  // row_delta = dy . y = sum over keys of weight times its gradient
    pack<C> sum(0);
    const T* const gradient = dy.data + (q0 + i) * dy.time;
    const T* const row = y.data + (q0 + i) * y.time;
    for_packs<C>(B::depth, [&](index_t d, auto n) { sum = sum + load<C>(gradient + d, n) * load<C>(row + d, n); });
    row_delta[i] = sum_lanes(sum);
  }
  if (Head::starts_at_zero) std::fill_n(dqs, packs * lanes<C> * B::width, C(0));
  const index_t end = std::min(to, head.end_key(q0, queries));
  for (index_t j0 = std::max(from, head.first_key(q0)), count; j0 < end; j0 += count) {
    count = std::min(key_block, head.end_block(j0, end) - j0);
    if (!head.enter(q0, queries, j0, count)) continue;
    const index_t p0 = head.first_query(q0, j0) / lanes<C>;
    const index_t i0 = p0 * lanes<C>;
    B::load_rows(keys, k.data + j0 * k.time, k.time, count, B::fours(count));
    B::load_row_pairs(keys_across, k.data + j0 * k.time, k.time, count);
    B::load_rows(values, v.data + j0 * v.time, v.time, count, B::fours(count));
    const index_t p1 = B::padded(head.end_query(q0, queries, j0 + count)) / lanes<C>;
    const index_t i1 = std::min(queries, p1 * lanes<C>);
    B::on_queries::run(B::fours(count), p1 - p0, B::words(B::depth), keys, B::words(B::width), 1, qt + i0, weights + i0,
                       false);
    B::on_queries::run(B::fours(count), p1 - p0, B::words(B::depth), values, B::words(B::width), 1, dyt + i0,
                       dscores + i0, false);
    for (index_t p = p0; p < p1; ++p) {
      const index_t i = p * lanes<C>;
      const typename B::pair_targets at{weights_along + i / B::per_word, dscores_along + i / B::per_word,
                                        dscores_across + i};
      C *const w = weights + i, *const d = dscores + i;
      const C *const of_rows = row_lse + i, *const delta = row_delta + i;
      head.scores(q0, i, j0, count,
                  [&](const auto& of) { B::softmax_backward_step(of, w, d, at, count, of_rows, delta); });
    }
    if constexpr (Head::starts_at_zero)
      if (dbias != nullptr) head.add_bias_gradient(dbias, dscores, q0, i0, i1, j0, count);
    const bool accumulate = head.adds_to_keys(q0, j0);
    if (dv.data != nullptr) {
      B::on_depth::run(B::fours(count), B::width / lanes<C>, B::words(i1 - i0), weights_along + i0 / B::per_word,
                       B::words(B::query_block), 1, dys_across + i0 / B::per_word * B::width, tile, false);
      B::store_rows(dv.data + j0 * dv.time, dv.time, tile, count, C(1), dv.accumulate || accumulate);
    }
    if (dk.data != nullptr) {
      B::on_depth::run(B::fours(count), B::width / lanes<C>, B::words(i1 - i0), dscores_along + i0 / B::per_word,
                       B::words(B::query_block), 1, qs_across + i0 / B::per_word * B::width, tile, false);
      B::store_rows(dk.data + j0 * dk.time, dk.time, tile, count, head.scale(), dk.accumulate || accumulate);
    }
    if (dq.data != nullptr)
      B::on_depth::run((p1 - p0) * lanes<C>, B::width / lanes<C>, B::words(count), dscores_across + i0, 1,
                       B::query_block, keys_across, dqs + i0 * B::width, head.adds(j0));
  }
  if (dq.data != nullptr) B::store_rows(dq.data + q0 * dq.time, dq.time, dqs, queries, head.scale(), dq.accumulate);
}

/// Operand x from head h of sequence b and position t on.
template <class U>
attention_operand<U> attention_from(attention_operand<U> x, index_t b, index_t h, index_t t = 0) {
  if (x.data != nullptr) x.data += b * x.batch + h * x.head + t * x.time;
  return x;
}

}  // namespace gradus::cpu_kit::inline GRADUS_BUILD
