#pragma once
// The scheduling of attention on the CPU: which blocks of queries meet which keys, and in which task.

#include <algorithm>
#include <cmath>
#include <cstring>

#include "../../core/config.hpp"
#include "../../cpu/parallel.hpp"
#include "attention.hpp"
#include "cpu_blocks.hpp"

namespace gradus::cpu_kit::inline GRADUS_BUILD {

/// What is attended to what. The bits depend on key_block.
struct attention_extents {
  index_t batch, heads, queries, keys;
  bool causal;
  index_t key_block;  ///< keys that a block of queries takes at once

  index_t keys_end(index_t q0, index_t count) const { return causal ? std::min(keys, q0 + count) : keys; }
  // The first query that sees a key from j0 on; those before it are above the diagonal.
  index_t first_query(index_t q0, index_t j0) const { return causal && j0 > q0 ? j0 - q0 : 0; }
};

/// What a task of forward works in.
template <class B>
struct attention_forward_scratch {
  alignas(64) typename B::word qt[B::words(B::depth) * B::query_block];
  alignas(64) typename B::word keys[B::most_keys * B::words(B::width)];
  alignas(64) typename B::word values[B::words(B::most_keys) * B::width];
  alignas(64) typename B::number scores[B::most_keys * B::query_block];
  typename B::template second_way<B::words(B::most_keys) * B::query_block> weights;
  alignas(64) typename B::number sums[B::query_block * B::width];
  alignas(64) typename B::number largest[B::query_block];
  alignas(64) typename B::number total[B::query_block];
  alignas(64) typename B::number fade[B::query_block];
};
template <class B>
struct attention_backward_scratch {
  alignas(64) typename B::word qs[B::query_block * B::words(B::width)];
  alignas(64) typename B::word dys[B::query_block * B::words(B::width)];
  typename B::template second_way<B::words(B::query_block) * B::width> qs_across, dys_across;
  alignas(64) typename B::number dqs[B::query_block * B::width];
  alignas(64) typename B::word qt[B::words(B::depth) * B::query_block];
  alignas(64) typename B::word dyt[B::words(B::depth) * B::query_block];
  alignas(64) typename B::word keys[B::most_keys * B::words(B::width)];
  typename B::template second_way<B::words(B::most_keys) * B::width> keys_across;
  alignas(64) typename B::word values[B::most_keys * B::words(B::width)];
  alignas(64) typename B::number tile[B::most_keys * B::width];
  alignas(64) typename B::number weights[B::most_keys * B::query_block];
  alignas(64) typename B::number dscores[B::most_keys * B::query_block];
  typename B::template second_way<B::most_keys * B::words(B::query_block)> weights_along, dscores_along;
  typename B::template second_way<B::words(B::most_keys) * B::query_block> dscores_across;
  alignas(64) typename B::number norm[B::query_block];
  alignas(64) typename B::number delta[B::query_block];
};

// Of `queries` queries from the time q0 on; `out`, `lse` and `q` are theirs.
template <class B, class C, class T>
void attention_forward_block(attention_forward_scratch<B>& room, const attention_extents& of, index_t q0,
                             index_t queries, attention_operand<T> out, C* lse, attention_operand<const T> q,
                             attention_operand<const T> k, attention_operand<const T> v) {
  const index_t packs = B::padded(queries) / lanes<C>;
  const index_t rows = (queries + 1) / 2 * 2;  // of sums: a block_product takes two
  auto& [qt, keys, values, scores, second_weights, sums, largest, total, fade] = room;
  typename B::word* const weights = second_weights.or_the(B::as_words(scores));
  B::gather(B::as_words(sums), q.data, q.time, queries, packs * lanes<C>);
  B::transpose_rows(qt, B::as_words(sums), packs, B::scale);
  std::fill_n(largest, B::query_block, B::lowest);
  std::fill_n(total, B::query_block, C(0));
  const index_t end = of.keys_end(q0, queries);
  for (index_t j0 = 0; j0 < end; j0 += of.key_block) {
    const index_t count = std::min(of.key_block, end - j0);
    const index_t p0 = of.first_query(q0, j0) / lanes<C>;
    const index_t i0 = p0 * lanes<C>;
    B::gather(keys, k.data + j0 * k.time, k.time, count, B::fours(count));
    if constexpr (B::pairs) B::gather_across(values, v.data + j0 * v.time, v.time, count);
    else B::gather(values, v.data + j0 * v.time, v.time, count, count);
    B::on_queries::run(B::fours(count), packs - p0, B::words(B::depth), keys, B::words(B::width), 1, qt + i0,
                       scores + i0, false);
    for (index_t p = p0; p < packs; ++p) {
      const index_t i = p * lanes<C>;
      if (of.causal && j0 + count > q0 + i + 1)
        B::template soften<true>(scores + i, weights + i, count, q0 + i, j0, largest + i, total + i, fade + i);
      else B::template soften<false>(scores + i, weights + i, count, q0 + i, j0, largest + i, total + i, fade + i);
    }
    if (j0 > 0)
      for (index_t i = i0; i < rows; ++i)
        for (index_t d = 0; d < B::width; d += lanes<C>)
          (pack<C>::load(sums + i * B::width + d) * pack<C>(fade[i])).store(sums + i * B::width + d);
    B::on_depth::run(rows - i0, B::width / lanes<C>, B::words(count), weights + i0, 1, B::query_block, values,
                     sums + i0 * B::width, j0 > 0);
  }
  for (index_t i = 0; i < queries; ++i) {
    B::scatter(out.data + i * out.time, 0, sums + i * B::width, 1, C(1) / total[i], false);
    if (lse != nullptr) lse[i] = largest[i] + std::log(total[i]);
  }
}

// Of the queries from q0 on against keys from .. to-1.
template <class B, class C, class T>
void attention_backward_block(attention_backward_scratch<B>& room, const attention_extents& of, index_t q0,
                              index_t from, index_t to, attention_operand<T> dq, attention_operand<T> dk,
                              attention_operand<T> dv, attention_operand<const T> dy, attention_operand<const T> q,
                              attention_operand<const T> k, attention_operand<const T> v, attention_operand<const T> y,
                              const C* lse) {
  const index_t queries = std::min(B::query_block, of.queries - q0);
  const index_t packs = B::padded(queries) / lanes<C>;
  auto& [qs, dys, second_qs, second_dys, dqs, qt, dyt, keys, second_keys, values, tile, weights, dscores,
         second_weights, second_dscores, third_dscores, norm, delta] = room;
  typename B::word* const qs_across = second_qs.or_the(qs);
  typename B::word* const dys_across = second_dys.or_the(dys);
  typename B::word* const keys_across = second_keys.or_the(keys);
  typename B::word* const weights_along = second_weights.or_the(B::as_words(weights));
  typename B::word* const dscores_along = second_dscores.or_the(B::as_words(dscores));
  typename B::word* const dscores_across = third_dscores.or_the(B::as_words(dscores));
  std::fill_n(norm, B::query_block, C(0));
  std::fill_n(delta, B::query_block, C(0));
  B::gather(qs, q.data + q0 * q.time, q.time, queries, packs * lanes<C>);
  B::gather(dys, dy.data + q0 * dy.time, dy.time, queries, packs * lanes<C>);
  B::gather_across(qs_across, q.data + q0 * q.time, q.time, queries);
  B::gather_across(dys_across, dy.data + q0 * dy.time, dy.time, queries);
  B::transpose_rows(qt, qs, packs, B::scale);
  B::transpose_rows(dyt, dys, packs, C(1));
  std::copy_n(lse + q0, queries, norm);
  for (index_t i = 0; i < queries; ++i) {  // delta = dy . y = sum over keys of weight times its gradient
    pack<C> sum(0);
    const T* const gradient = dy.data + (q0 + i) * dy.time;
    const T* const row = y.data + (q0 + i) * y.time;
    for_packs<C>(B::depth, [&](index_t d, auto n) { sum = sum + load<C>(gradient + d, n) * load<C>(row + d, n); });
    delta[i] = sum_lanes(sum);
  }
  const index_t end = std::min(to, of.keys_end(q0, queries));
  for (index_t j0 = from; j0 < end; j0 += of.key_block) {
    const index_t count = std::min(of.key_block, end - j0);
    const index_t p0 = of.first_query(q0, j0) / lanes<C>;
    const index_t i0 = p0 * lanes<C>;
    B::gather(keys, k.data + j0 * k.time, k.time, count, B::fours(count));
    B::gather_across(keys_across, k.data + j0 * k.time, k.time, count);
    B::gather(values, v.data + j0 * v.time, v.time, count, B::fours(count));
    B::on_queries::run(B::fours(count), packs - p0, B::words(B::depth), keys, B::words(B::width), 1, qt + i0,
                       weights + i0, false);
    B::on_queries::run(B::fours(count), packs - p0, B::words(B::depth), values, B::words(B::width), 1, dyt + i0,
                       dscores + i0, false);
    for (index_t p = p0; p < packs; ++p) {
      const index_t i = p * lanes<C>;
      const typename B::pair_place at{weights_along + i / B::per_word, dscores_along + i / B::per_word,
                                      dscores_across + i};
      if (of.causal && j0 + count > q0 + i + 1)
        B::template unsoften<true>(weights + i, dscores + i, at, count, q0 + i, j0, norm + i, delta + i);
      else B::template unsoften<false>(weights + i, dscores + i, at, count, q0 + i, j0, norm + i, delta + i);
    }
    const bool again =
        q0 / B::query_block > (of.causal ? j0 / B::query_block : 0);  // an earlier query block wrote dk and dv
    if (dv.data != nullptr) {
      B::on_depth::run(B::fours(count), B::width / lanes<C>, B::words(queries - i0), weights_along + i0 / B::per_word,
                       B::words(B::query_block), 1, dys_across + i0 / B::per_word * B::width, tile, false);
      B::scatter(dv.data + j0 * dv.time, dv.time, tile, count, C(1), dv.accumulate || again);
    }
    if (dk.data != nullptr) {
      B::on_depth::run(B::fours(count), B::width / lanes<C>, B::words(queries - i0), dscores_along + i0 / B::per_word,
                       B::words(B::query_block), 1, qs_across + i0 / B::per_word * B::width, tile, false);
      B::scatter(dk.data + j0 * dk.time, dk.time, tile, count, B::scale, dk.accumulate || again);
    }
    if (dq.data != nullptr)
      B::on_depth::run((packs - p0) * lanes<C>, B::width / lanes<C>, B::words(count), dscores_across + i0, 1,
                       B::query_block, keys_across, dqs + i0 * B::width, j0 > 0);
  }
  if (dq.data != nullptr) B::scatter(dq.data + q0 * dq.time, dq.time, dqs, queries, B::scale, dq.accumulate);
}

/// Operand x from head h of sequence b and time t on.
template <class U>
attention_operand<U> attention_from(attention_operand<U> x, index_t b, index_t h, index_t t = 0) {
  if (x.data != nullptr) x.data += b * x.batch + h * x.head + t * x.time;
  return x;
}

/// out = softmax(q k^T / sqrt(Depth)) v, and the log-sum-exp of the scores where `lse` is not null.
template <index_t Depth, class C, class T>
void attention_forward(context<cpu>& ctx, attention_extents of, attention_operand<T> out, C* lse,
                       attention_operand<const T> q, attention_operand<const T> k, attention_operand<const T> v) {
  using B = attention_blocks<C, T, Depth>;
  using scratch = attention_forward_scratch<B>;
  of.key_block = B::key_block(of.queries);
  const index_t blocks = (of.queries + B::query_block - 1) / B::query_block;
  parallel_tasks(ctx, of.batch * of.heads * blocks, sizeof(scratch), [=](index_t task, void* memory) {
    const index_t q0 = (blocks - 1 - task % blocks) * B::query_block, pair = task / blocks;
    const index_t b = pair / of.heads, h = pair % of.heads;
    attention_forward_block<B>(*static_cast<scratch*>(memory), of, q0, std::min(B::query_block, of.queries - q0),
                               attention_from(out, b, h, q0), lse == nullptr ? nullptr : lse + pair * of.queries + q0,
                               attention_from(q, b, h, q0), attention_from(k, b, h), attention_from(v, b, h));
  });
}

/// Puts the first `count` times of k and v into the past, from time `first` on, and attends from these times; rows of
/// `out` behind them are zero. The bits are those of attention with as many queries as the past has times.
template <index_t Depth, class C, class T>
void attention_cached(context<cpu>& ctx, attention_extents of, index_t first, index_t count, attention_operand<T> out,
                      attention_operand<const T> q, attention_operand<const T> k, attention_operand<const T> v,
                      attention_operand<T> past_keys, attention_operand<T> past_values) {
  using B = attention_blocks<C, T, Depth>;
  using scratch = attention_forward_scratch<B>;
  of.key_block = B::key_block(of.keys);
  parallel_tasks(ctx, of.batch * of.heads, sizeof(scratch), [=](index_t task, void* memory) {
    const index_t b = task / of.heads, h = task % of.heads;
    const auto put = [=](attention_operand<const T> from, attention_operand<T> past) {
      from = attention_from(from, b, h);
      past = attention_from(past, b, h, first);
      for (index_t t = 0; t < count; ++t)
        std::memcpy(static_cast<void*>(past.data + t * past.time), from.data + t * from.time, Depth * sizeof(T));
    };
    const auto whole = [=](attention_operand<T> past) {
      past = attention_from(past, b, h);
      return attention_operand<const T>{past.data, past.batch, past.head, past.time, false};
    };
    put(k, past_keys);
    put(v, past_values);
    for (index_t t = count; t < of.queries; ++t) std::fill_n(attention_from(out, b, h, t).data, Depth, T{});
    for (index_t i = 0; i < count; i += B::query_block)
      attention_forward_block<B, C>(*static_cast<scratch*>(memory), of, first + i, std::min(B::query_block, count - i),
                                    attention_from(out, b, h, i), nullptr, attention_from(q, b, h, i), whole(past_keys),
                                    whole(past_values));
  });
}

/// Writes where dq, dk and dv are not null. A head is one task, in which dk and dv gather over its query blocks. Where
/// that makes too few for the threads, dq and the others are made apart, each by many tasks: 7 products of blocks then
/// take the place of 5, and add up in the same order.
template <index_t Depth, class C, class T>
void attention_backward(context<cpu>& ctx, attention_extents of, attention_operand<T> dq, attention_operand<T> dk,
                        attention_operand<T> dv, attention_operand<const T> dy, attention_operand<const T> q,
                        attention_operand<const T> k, attention_operand<const T> v, attention_operand<const T> y,
                        const C* lse) {
  using B = attention_blocks<C, T, Depth>;
  using scratch = attention_backward_scratch<B>;
  constexpr index_t block = B::query_block;
  of.key_block = B::key_block(of.queries);
  const index_t query_blocks = (of.queries + block - 1) / block;
  const index_t key_ranges = (of.keys + block - 1) / block;  // whole key blocks each
  const index_t all_heads = of.batch * of.heads;
  const auto threads = static_cast<index_t>(thread_count(ctx.stream()));
  const bool shared = dq.data != nullptr && (dq.data == dk.data || dq.data == dv.data);  // tasks would write the same
  const bool apart = !shared && (all_heads + threads - 1) / threads * threads * 5 > all_heads * 7 && query_blocks > 1;
  const index_t parts = apart ? query_blocks + key_ranges : 1;
  parallel_tasks(ctx, all_heads * parts, sizeof(scratch), [=](index_t task, void* memory) {
    const index_t pair = task / parts, part = task % parts;
    const auto here = [=](auto x) { return attention_from(x, pair / of.heads, pair % of.heads); };
    const attention_operand<T> none;
    const auto blocks = [&](index_t first, index_t last, index_t from, index_t to, auto to_q, auto to_k, auto to_v) {
      for (index_t i = first; i < last; ++i)
        attention_backward_block<B>(*static_cast<scratch*>(memory), of, i * block, from, to, here(to_q), here(to_k),
                                    here(to_v), here(dy), here(q), here(k), here(v), here(y), lse + pair * of.queries);
    };
    if (!apart) {
      blocks(0, query_blocks, 0, of.keys, dq, dk, dv);
    } else if (part < key_ranges) {
      if (dk.data == nullptr && dv.data == nullptr) return;
      blocks(of.causal ? part : 0, query_blocks, part * block, std::min(of.keys, (part + 1) * block), none, dk, dv);
    } else {
      if (dq.data == nullptr) return;
      const index_t i = query_blocks - 1 - (part - key_ranges);
      blocks(i, i + 1, 0, of.keys, dq, none, none);
    }
  });
}

}  // namespace gradus::cpu_kit::inline GRADUS_BUILD
