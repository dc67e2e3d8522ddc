#pragma once
// Attention on the CPU: divides heads and blocks of queries among tasks, and loops over blocks of keys.

#include <algorithm>
#include <cmath>
#include <cstring>

#include "../../core/config.hpp"
#include "../../cpu/parallel.hpp"
#include "attention.hpp"
#include "cpu_blocks.hpp"

namespace gradus::cpu_kit::inline GRADUS_BUILD {

/// Extents of one attention. The bits of its result depend on key_block.
struct attention_extents {
  index_t batch, heads, queries, keys;
  bool causal;
  index_t key_block;  ///< keys per block

  index_t keys_end(index_t q0, index_t count) const { return causal ? std::min(keys, q0 + count) : keys; }
  // The first query that attends to key j0; earlier ones are above the diagonal.
  index_t first_query(index_t q0, index_t j0) const { return causal && j0 > q0 ? j0 - q0 : 0; }
};

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
template <class B, class C, class T>
void attention_forward_block(attention_forward_scratch<B>& scratch, const attention_extents& extents, index_t q0,
                             index_t queries, attention_operand<T> out, C* lse, attention_operand<const T> q,
                             attention_operand<const T> k, attention_operand<const T> v) {
  const index_t packs = B::padded(queries) / lanes<C>;
  const index_t rows = (queries + 1) / 2 * 2;  // a block_product needs an even number of rows
  auto& [qt, keys, values, scores, second_weights, sums, row_max, row_sum, rescale] = scratch;
  typename B::word* const weights = second_weights.data_or(B::as_words(scores));
  B::load_rows(B::as_words(sums), q.data, q.time, queries, packs * lanes<C>);
  B::transpose_rows(qt, B::as_words(sums), packs, B::scale);
  std::fill_n(row_max, B::query_block, B::lowest);
  std::fill_n(row_sum, B::query_block, C(0));
  const index_t end = extents.keys_end(q0, queries);
  for (index_t j0 = 0; j0 < end; j0 += extents.key_block) {
    const index_t count = std::min(extents.key_block, end - j0);
    const index_t p0 = extents.first_query(q0, j0) / lanes<C>;
    const index_t i0 = p0 * lanes<C>;
    B::load_rows(keys, k.data + j0 * k.time, k.time, count, B::fours(count));
    if constexpr (B::pairs) B::load_row_pairs(values, v.data + j0 * v.time, v.time, count);
    else B::load_rows(values, v.data + j0 * v.time, v.time, count, count);
    B::on_queries::run(B::fours(count), packs - p0, B::words(B::depth), keys, B::words(B::width), 1, qt + i0,
                       scores + i0, false);
    for (index_t p = p0; p < packs; ++p) {
      const index_t i = p * lanes<C>;
      if (extents.causal && j0 + count > q0 + i + 1)
        B::template softmax_step<true>(scores + i, weights + i, count, q0 + i, j0, row_max + i, row_sum + i,
                                       rescale + i);
      else
        B::template softmax_step<false>(scores + i, weights + i, count, q0 + i, j0, row_max + i, row_sum + i,
                                        rescale + i);
    }
    if (j0 > 0)
      for (index_t i = i0; i < rows; ++i)
        for (index_t d = 0; d < B::width; d += lanes<C>)
          (pack<C>::load(sums + i * B::width + d) * pack<C>(rescale[i])).store(sums + i * B::width + d);
    B::on_depth::run(rows - i0, B::width / lanes<C>, B::words(count), weights + i0, 1, B::query_block, values,
                     sums + i0 * B::width, j0 > 0);
  }
  for (index_t i = 0; i < queries; ++i) {
    B::store_rows(out.data + i * out.time, 0, sums + i * B::width, 1, C(1) / row_sum[i], false);
    if (lse != nullptr) lse[i] = row_max[i] + std::log(row_sum[i]);
  }
}

// Backward for the block of queries from q0 on and the keys from .. to - 1.
template <class B, class C, class T>
void attention_backward_block(attention_backward_scratch<B>& scratch, const attention_extents& extents, index_t q0,
                              index_t from, index_t to, attention_operand<T> dq, attention_operand<T> dk,
                              attention_operand<T> dv, attention_operand<const T> dy, attention_operand<const T> q,
                              attention_operand<const T> k, attention_operand<const T> v, attention_operand<const T> y,
                              const C* lse) {
  const index_t queries = std::min(B::query_block, extents.queries - q0);
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
  B::transpose_rows(qt, qs, packs, B::scale);
  B::transpose_rows(dyt, dys, packs, C(1));
  std::copy_n(lse + q0, queries, row_lse);
  for (index_t i = 0; i < queries; ++i) {  // row_delta = dy . y = sum over keys of weight times its gradient
    pack<C> sum(0);
    const T* const gradient = dy.data + (q0 + i) * dy.time;
    const T* const row = y.data + (q0 + i) * y.time;
    for_packs<C>(B::depth, [&](index_t d, auto n) { sum = sum + load<C>(gradient + d, n) * load<C>(row + d, n); });
    row_delta[i] = sum_lanes(sum);
  }
  const index_t end = std::min(to, extents.keys_end(q0, queries));
  for (index_t j0 = from; j0 < end; j0 += extents.key_block) {
    const index_t count = std::min(extents.key_block, end - j0);
    const index_t p0 = extents.first_query(q0, j0) / lanes<C>;
    const index_t i0 = p0 * lanes<C>;
    B::load_rows(keys, k.data + j0 * k.time, k.time, count, B::fours(count));
    B::load_row_pairs(keys_across, k.data + j0 * k.time, k.time, count);
    B::load_rows(values, v.data + j0 * v.time, v.time, count, B::fours(count));
    B::on_queries::run(B::fours(count), packs - p0, B::words(B::depth), keys, B::words(B::width), 1, qt + i0,
                       weights + i0, false);
    B::on_queries::run(B::fours(count), packs - p0, B::words(B::depth), values, B::words(B::width), 1, dyt + i0,
                       dscores + i0, false);
    for (index_t p = p0; p < packs; ++p) {
      const index_t i = p * lanes<C>;
      const typename B::pair_targets at{weights_along + i / B::per_word, dscores_along + i / B::per_word,
                                        dscores_across + i};
      if (extents.causal && j0 + count > q0 + i + 1)
        B::template softmax_backward_step<true>(weights + i, dscores + i, at, count, q0 + i, j0, row_lse + i,
                                                row_delta + i);
      else
        B::template softmax_backward_step<false>(weights + i, dscores + i, at, count, q0 + i, j0, row_lse + i,
                                                 row_delta + i);
    }
    const bool accumulate =
        q0 / B::query_block > (extents.causal ? j0 / B::query_block : 0);  // an earlier query block wrote dk and dv
    if (dv.data != nullptr) {
      B::on_depth::run(B::fours(count), B::width / lanes<C>, B::words(queries - i0), weights_along + i0 / B::per_word,
                       B::words(B::query_block), 1, dys_across + i0 / B::per_word * B::width, tile, false);
      B::store_rows(dv.data + j0 * dv.time, dv.time, tile, count, C(1), dv.accumulate || accumulate);
    }
    if (dk.data != nullptr) {
      B::on_depth::run(B::fours(count), B::width / lanes<C>, B::words(queries - i0), dscores_along + i0 / B::per_word,
                       B::words(B::query_block), 1, qs_across + i0 / B::per_word * B::width, tile, false);
      B::store_rows(dk.data + j0 * dk.time, dk.time, tile, count, B::scale, dk.accumulate || accumulate);
    }
    if (dq.data != nullptr)
      B::on_depth::run((packs - p0) * lanes<C>, B::width / lanes<C>, B::words(count), dscores_across + i0, 1,
                       B::query_block, keys_across, dqs + i0 * B::width, j0 > 0);
  }
  if (dq.data != nullptr) B::store_rows(dq.data + q0 * dq.time, dq.time, dqs, queries, B::scale, dq.accumulate);
}

/// Operand x from head h of sequence b and position t on.
template <class U>
attention_operand<U> attention_from(attention_operand<U> x, index_t b, index_t h, index_t t = 0) {
  if (x.data != nullptr) x.data += b * x.batch + h * x.head + t * x.time;
  return x;
}

/// out = softmax(q k^T / sqrt(Depth)) v; also the log-sum-exp of each row of scores, unless `lse` is null.
template <index_t Depth, class C, class T>
void attention_forward(context<cpu>& ctx, attention_extents extents, attention_operand<T> out, C* lse,
                       attention_operand<const T> q, attention_operand<const T> k, attention_operand<const T> v) {
  using B = attention_blocks<C, T, Depth>;
  using scratch = attention_forward_scratch<B>;
  extents.key_block = B::key_block(extents.queries);
  const index_t blocks = (extents.queries + B::query_block - 1) / B::query_block;
  parallel_tasks(ctx, extents.batch * extents.heads * blocks, sizeof(scratch), [=](index_t task, void* memory) {
    const index_t q0 = (blocks - 1 - task % blocks) * B::query_block, pair = task / blocks;
    const index_t b = pair / extents.heads, h = pair % extents.heads;
    attention_forward_block<B>(*static_cast<scratch*>(memory), extents, q0,
                               std::min(B::query_block, extents.queries - q0), attention_from(out, b, h, q0),
                               lse == nullptr ? nullptr : lse + pair * extents.queries + q0,
                               attention_from(q, b, h, q0), attention_from(k, b, h), attention_from(v, b, h));
  });
}

/// Appends the first `count` positions of k and v to the cache, from position `first` on, and attends from them; later
/// rows of `out` become zero. The bits are those of attention with as many queries as the cache has positions.
template <index_t Depth, class C, class T>
void attention_cached(context<cpu>& ctx, attention_extents extents, index_t first, index_t count,
                      attention_operand<T> out, attention_operand<const T> q, attention_operand<const T> k,
                      attention_operand<const T> v, attention_operand<T> past_keys, attention_operand<T> past_values) {
  using B = attention_blocks<C, T, Depth>;
  using scratch = attention_forward_scratch<B>;
  extents.key_block = B::key_block(extents.keys);
  parallel_tasks(ctx, extents.batch * extents.heads, sizeof(scratch), [=](index_t task, void* memory) {
    const index_t b = task / extents.heads, h = task % extents.heads;
    const auto append = [=](attention_operand<const T> from, attention_operand<T> past) {
      from = attention_from(from, b, h);
      past = attention_from(past, b, h, first);
      for (index_t t = 0; t < count; ++t)
        std::memcpy(static_cast<void*>(past.data + t * past.time), from.data + t * from.time, Depth * sizeof(T));
    };
    const auto whole = [=](attention_operand<T> past) {
      past = attention_from(past, b, h);
      return attention_operand<const T>{past.data, past.batch, past.head, past.time, false};
    };
    append(k, past_keys);
    append(v, past_values);
    for (index_t t = count; t < extents.queries; ++t) std::fill_n(attention_from(out, b, h, t).data, Depth, T{});
    for (index_t i = 0; i < count; i += B::query_block)
      attention_forward_block<B, C>(*static_cast<scratch*>(memory), extents, first + i,
                                    std::min(B::query_block, count - i), attention_from(out, b, h, i), nullptr,
                                    attention_from(q, b, h, i), whole(past_keys), whole(past_values));
  });
}

/// Writes those of dq, dk and dv that are not null. One task per head; or, if that leaves threads idle, tasks per query
/// block for dq, and per key range for dk and dv: 7 products per block instead of 5, summed in the same order.
template <index_t Depth, class C, class T>
void attention_backward(context<cpu>& ctx, attention_extents extents, attention_operand<T> dq, attention_operand<T> dk,
                        attention_operand<T> dv, attention_operand<const T> dy, attention_operand<const T> q,
                        attention_operand<const T> k, attention_operand<const T> v, attention_operand<const T> y,
                        const C* lse) {
  using B = attention_blocks<C, T, Depth>;
  using scratch = attention_backward_scratch<B>;
  constexpr index_t block = B::query_block;
  extents.key_block = B::key_block(extents.queries);
  const index_t query_blocks = (extents.queries + block - 1) / block;
  const index_t key_ranges = (extents.keys + block - 1) / block;  // of whole key blocks
  const index_t all_heads = extents.batch * extents.heads;
  const auto threads = static_cast<index_t>(thread_count(ctx.stream()));
  const bool shared =
      dq.data != nullptr && (dq.data == dk.data || dq.data == dv.data);  // tasks would write the same memory
  const bool separate =
      !shared && (all_heads + threads - 1) / threads * threads * 5 > all_heads * 7 && query_blocks > 1;
  const index_t parts = separate ? query_blocks + key_ranges : 1;
  parallel_tasks(ctx, all_heads * parts, sizeof(scratch), [=](index_t task, void* memory) {
    const index_t pair = task / parts, part = task % parts;
    const auto here = [=](auto x) { return attention_from(x, pair / extents.heads, pair % extents.heads); };
    const attention_operand<T> none;
    const auto blocks = [&](index_t first, index_t last, index_t from, index_t to, auto to_q, auto to_k, auto to_v) {
      for (index_t i = first; i < last; ++i)
        attention_backward_block<B>(*static_cast<scratch*>(memory), extents, i * block, from, to, here(to_q),
                                    here(to_k), here(to_v), here(dy), here(q), here(k), here(v), here(y),
                                    lse + pair * extents.queries);
    };
    if (!separate) {
      blocks(0, query_blocks, 0, extents.keys, dq, dk, dv);
    } else if (part < key_ranges) {
      if (dk.data == nullptr && dv.data == nullptr) return;
      blocks(extents.causal ? part : 0, query_blocks, part * block, std::min(extents.keys, (part + 1) * block), none,
             dk, dv);
    } else {
      if (dq.data == nullptr) return;
      const index_t i = query_blocks - 1 - (part - key_ranges);
      blocks(i, i + 1, 0, extents.keys, dq, none, none);
    }
  });
}

}  // namespace gradus::cpu_kit::inline GRADUS_BUILD
