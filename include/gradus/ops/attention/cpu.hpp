#pragma once
#include <algorithm>
#include <cmath>
#include <limits>

#include "../../core/config.hpp"
#include "../../cpu/block_product.hpp"
#include "../../cpu/parallel.hpp"
#include "../../cpu/simd_math.hpp"
#include "../../cpu/vector_loop.hpp"
#include "../elementwise/cpu.hpp"
#include "../matmul/cpu.hpp"
#include "../permute/cpu.hpp"
#include "../slice/cpu.hpp"
#include "../softmax/cpu.hpp"
#include "attention.hpp"

namespace gradus {

namespace cpu_kit::inline GRADUS_BUILD {

/// Attention of one head at a time, in blocks of queries against blocks of keys that stay in the cache.
///
/// Scores are held transposed, [keys, queries]: the online softmax over the keys then runs lane by lane, with a query in each
/// lane, and both products of forward find their right operand laid out along the lanes.
template <class C, index Depth, index Queries, index Keys, bool Causal>
struct flash_attention {
  static constexpr index together = std::max<index>(lanes<C>, 8);  // scratch is padded to multiples, of whole packs
  static constexpr index padded(index n) { return (n + together - 1) / together * together; }
  static constexpr index width = padded(Depth);  ///< of a scratch row; the padding is zero
  static constexpr index fitting(index block, index least, std::size_t bytes) {
    while (block > least && block * width * sizeof(C) > bytes) block /= 2;
    return block;
  }
  static constexpr index query_block = std::min(fitting(64, together, 32 << 10), padded(Queries));
  static constexpr index key_block = std::min(fitting(32, 8, 16 << 10), query_block);
  static constexpr index query_blocks = (Queries + query_block - 1) / query_block;
  static constexpr index key_ranges = (Keys + query_block - 1) / query_block;  // whole key blocks each

  template <class T>
  static void forward(context<cpu>& ctx, index batch, index heads, attention_operand<T> out, C* lse,
                      attention_operand<const T> q, attention_operand<const T> k, attention_operand<const T> v) {
    parallel_tasks(ctx, batch * heads * query_blocks, sizeof(forward_scratch), [=](index task, void* memory) {
      const index at = query_blocks - 1 - task % query_blocks;
      const index pair = task / query_blocks;
      const index b = pair / heads;
      const index h = pair % heads;
      forward_block(*static_cast<forward_scratch*>(memory), at * query_block, head(out, b, h), out.time,
                    lse == nullptr ? nullptr : lse + pair * Queries, head(q, b, h), q.time, head(k, b, h), k.time,
                    head(v, b, h), v.time);
    });
  }
  /// Writes where dq, dk and dv are not null. A head is one task, in which dk and dv gather over its query blocks. Where that makes
  /// too few for the threads, dq and the others are made apart, each by many tasks: 7 products of blocks then take the place of
  /// 5, and add up in the same order.
  template <class T>
  static void backward(context<cpu>& ctx, index batch, index heads, attention_operand<T> dq, attention_operand<T> dk,
                       attention_operand<T> dv, attention_operand<const T> dy, attention_operand<const T> q,
                       attention_operand<const T> k, attention_operand<const T> v, attention_operand<const T> y,
                       const C* lse) {
    const index pairs = batch * heads;
    const auto threads = static_cast<index>(thread_count(ctx.stream()));
    const bool apart = (pairs + threads - 1) / threads * threads * 5 > pairs * 7 && query_blocks > 1;
    const index parts = apart ? query_blocks + key_ranges : 1;
    const auto none = [](auto x) {
      x.data = nullptr;
      return x;
    };
    parallel_tasks(ctx, pairs * parts, sizeof(backward_scratch), [=](index task, void* memory) {
      auto& room = *static_cast<backward_scratch*>(memory);
      const index pair = task / parts;
      const auto here = [b = pair / heads, h = pair % heads](auto x) {
        if (x.data != nullptr) x.data = head(x, b, h);
        return x;
      };
      const auto blocks = [&](index first, index last, index from, index to, auto dq_, auto dk_, auto dv_) {
        for (index i = first; i < last; ++i)
          backward_block(room, i * query_block, from, to, here(dq_), here(dk_), here(dv_), here(dy), here(q), here(k),
                         here(v), here(y), lse + pair * Queries);
      };
      const index part = task % parts;
      if (!apart) {
        blocks(0, query_blocks, 0, Keys, dq, dk, dv);
      } else if (part < key_ranges) {
        if (dk.data == nullptr && dv.data == nullptr) return;
        blocks(Causal ? part : 0, query_blocks, part * query_block, std::min(Keys, (part + 1) * query_block), none(dq),
               dk, dv);
      } else {
        if (dq.data == nullptr) return;
        const index i = query_blocks - 1 - (part - key_ranges);
        blocks(i, i + 1, 0, Keys, dq, none(dk), none(dv));
      }
    });
  }

 private:
  static constexpr C lowest = std::numeric_limits<C>::lowest();
  static constexpr C scale = static_cast<C>(gradus::detail::inverse_square_root(Depth));
  using on_queries = block_product<C, query_block, query_block>;  // right operand and result along queries
  using on_depth = block_product<C, width, width>;

  template <class T>
  static T* head(const attention_operand<T>& x, index b, index h) {
    return x.data + b * x.batch + h * x.head;
  }
  static constexpr index keys_end(index q0, index queries) { return Causal ? std::min(Keys, q0 + queries) : Keys; }
  // The first pack of queries that sees a key from j0 on; those before it are above the diagonal.
  static constexpr index first_pack(index q0, index j0) { return Causal && j0 > q0 ? (j0 - q0) / lanes<C> : 0; }
  static constexpr index fours(index n) { return (n + 3) / 4 * 4; }

  // Rows of a head into scratch rows padded with zeros; zero rows follow up to `padded_rows`.
  template <class T>
  static void gather(C* to, const T* from, index stride, index rows, index padded_rows) {
    for (index r = 0; r < rows; ++r)
      for_packs<C>(Depth, [&](index i, auto n) { load<C>(from + r * stride + i, n).store(to + r * width + i); });
    std::fill(to + rows * width, to + padded_rows * width, C(0));
  }
  // Scratch rows times `factor` into rows of a head.
  template <class T>
  static void scatter(T* to, index stride, const C* from, index rows, C factor, bool accumulate) {
    for (index r = 0; r < rows; ++r)
      for_packs<C>(Depth, [&](index i, auto n) {
        put(pack<C>::load(from + r * width + i) * pack<C>(factor), to + r * stride + i, accumulate, n);
      });
  }
  // to [Depth, query_block] = factor * rows^T.
  static void transpose_rows(C* to, const C* rows, index packs, C factor) {
    for (index i = 0; i < packs * lanes<C>; ++i)
      for (index d = 0; d < Depth; ++d) to[d * query_block + i] = factor * rows[i * width + d];
  }

  // e^x for x <= 0, not going below the smallest normal number: subnormals are slow, and no sum here can tell.
  static GRADUS_INLINE pack<C> falling_exp(pack<C> x) {
    const pack<C> low(sizeof(C) == 4 ? C(-87) : C(-700));
    return exp(select(x < low, low, x));
  }
  // Which of the queries in a pack from `query` on see key j.
  static GRADUS_INLINE pack_mask<C> sees(index query, index j) {
    pack<C> lane;
    for (index i = 0; i < lanes<C>; ++i) lane.v[i] = static_cast<C>(i);
    return lane >= pack<C>(static_cast<C>(static_cast<std::ptrdiff_t>(j) - static_cast<std::ptrdiff_t>(query)));
  }

  // What a task works in.
  struct forward_scratch {
    alignas(64) C qt[Depth * query_block];
    alignas(64) C keys[key_block * width];
    alignas(64) C values[key_block * width];
    alignas(64) C scores[key_block * query_block];
    alignas(64) C sums[query_block * width];
    alignas(64) C largest[query_block];
    alignas(64) C total[query_block];
    alignas(64) C fade[query_block];
  };
  struct backward_scratch {
    alignas(64) C qs[query_block * width];
    alignas(64) C dys[query_block * width];
    alignas(64) C dqs[query_block * width];
    alignas(64) C qt[Depth * query_block];
    alignas(64) C dyt[Depth * query_block];
    alignas(64) C keys[key_block * width];
    alignas(64) C values[key_block * width];
    alignas(64) C tile[key_block * width];
    alignas(64) C weights[key_block * query_block];
    alignas(64) C dscores[key_block * query_block];
    alignas(64) C norm[query_block];
    alignas(64) C delta[query_block];
  };

  template <class T>
  static void forward_block(forward_scratch& room, index q0, T* out, index out_stride, C* lse, const T* q,
                            index q_stride, const T* k, index k_stride, const T* v, index v_stride) {
    const index queries = std::min(query_block, Queries - q0);
    const index packs = padded(queries) / lanes<C>;
    auto& [qt, keys, values, scores, sums, largest, total, fade] = room;
    gather(sums, q + q0 * q_stride, q_stride, queries, packs * lanes<C>);
    transpose_rows(qt, sums, packs, scale);
    std::fill_n(largest, query_block, lowest);
    std::fill_n(total, query_block, C(0));
    const index end = keys_end(q0, queries);
    for (index j0 = 0; j0 < end; j0 += key_block) {
      const index count = std::min(key_block, end - j0);
      const index p0 = first_pack(q0, j0);
      const index i0 = p0 * lanes<C>;
      gather(keys, k + j0 * k_stride, k_stride, count, fours(count));
      gather(values, v + j0 * v_stride, v_stride, count, count);
      on_queries::run(fours(count), packs - p0, Depth, keys, width, 1, qt + i0, scores + i0, false);
      for (index p = p0; p < packs; ++p) {
        const index i = p * lanes<C>;
        if (Causal && j0 + count > q0 + i + 1)
          soften<true>(scores + i, count, q0 + i, j0, largest + i, total + i, fade + i);
        else soften<false>(scores + i, count, q0 + i, j0, largest + i, total + i, fade + i);
      }
      if (j0 > 0)
        for (index i = i0; i < packs * lanes<C>; ++i)
          for (index d = 0; d < width; d += lanes<C>)
            (pack<C>::load(sums + i * width + d) * pack<C>(fade[i])).store(sums + i * width + d);
      on_depth::run((packs - p0) * lanes<C>, width / lanes<C>, count, scores + i0, 1, query_block, values,
                    sums + i0 * width, j0 > 0);
    }
    for (index i = 0; i < queries; ++i) {
      scatter(out + (q0 + i) * out_stride, 0, sums + i * width, 1, C(1) / total[i], false);
      if (lse != nullptr) lse[q0 + i] = largest[i] + std::log(total[i]);
    }
  }

  // One step of the online softmax for a pack of queries: scores become exp(score - largest so far); `fade` is what earlier
  // sums must be multiplied by.
  template <bool Masked>
  static void soften(C* scores, index count, index query, index j0, C* largest, C* total, C* fade) {
    const pack<C> before = pack<C>::load(largest);
    pack<C> best = before;
    for (index j = 0; j < count; ++j) {
      pack<C> s = pack<C>::load(scores + j * query_block);
      if constexpr (Masked) s = select(sees(query, j0 + j), s, pack<C>(lowest));
      best = select(s > best, s, best);
    }
    pack<C> sum(0);
    for (index j = 0; j < count; ++j) {
      C* at = scores + j * query_block;
      pack<C> e = falling_exp(pack<C>::load(at) - best);
      if constexpr (Masked) e = select(sees(query, j0 + j), e, pack<C>(0));
      e.store(at);
      sum = sum + e;
    }
    const pack<C> f = falling_exp(before - best);
    f.store(fade);
    (pack<C>::load(total) * f + sum).store(total);
    best.store(largest);
  }

  // Of the queries from q0 on against keys from .. to-1.
  template <class T>
  static void backward_block(backward_scratch& room, index q0, index from, index to, attention_operand<T> dq,
                             attention_operand<T> dk, attention_operand<T> dv, attention_operand<const T> dy,
                             attention_operand<const T> q, attention_operand<const T> k, attention_operand<const T> v,
                             attention_operand<const T> y, const C* lse) {
    const index queries = std::min(query_block, Queries - q0);
    const index packs = padded(queries) / lanes<C>;
    auto& [qs, dys, dqs, qt, dyt, keys, values, tile, weights, dscores, norm, delta] = room;
    std::fill_n(norm, query_block, C(0));
    std::fill_n(delta, query_block, C(0));
    gather(qs, q.data + q0 * q.time, q.time, queries, packs * lanes<C>);
    gather(dys, dy.data + q0 * dy.time, dy.time, queries, packs * lanes<C>);
    transpose_rows(qt, qs, packs, scale);
    transpose_rows(dyt, dys, packs, C(1));
    std::copy_n(lse + q0, queries, norm);
    for (index i = 0; i < queries; ++i) {  // delta = dy . y = sum over keys of weight times its gradient
      pack<C> sum(0);
      const T* row = y.data + (q0 + i) * y.time;
      for_packs<C>(Depth, [&, from = dys + i * width](index d, auto n) {
        sum = sum + pack<C>::load(from + d) * load<C>(row + d, n);
      });
      delta[i] = sum_lanes(sum);
    }
    const index end = std::min(to, keys_end(q0, queries));
    for (index j0 = from; j0 < end; j0 += key_block) {
      const index count = std::min(key_block, end - j0);
      const index p0 = first_pack(q0, j0);
      const index i0 = p0 * lanes<C>;
      gather(keys, k.data + j0 * k.time, k.time, count, fours(count));
      gather(values, v.data + j0 * v.time, v.time, count, fours(count));
      on_queries::run(fours(count), packs - p0, Depth, keys, width, 1, qt + i0, weights + i0, false);
      on_queries::run(fours(count), packs - p0, Depth, values, width, 1, dyt + i0, dscores + i0, false);
      for (index p = p0; p < packs; ++p) {
        const index i = p * lanes<C>;
        if (Causal && j0 + count > q0 + i + 1)
          unsoften<true>(weights + i, dscores + i, count, q0 + i, j0, norm + i, delta + i);
        else unsoften<false>(weights + i, dscores + i, count, q0 + i, j0, norm + i, delta + i);
      }
      const bool again = q0 / query_block > (Causal ? j0 / query_block : 0);  // an earlier query block wrote dk and dv
      if (dv.data != nullptr) {
        on_depth::run(fours(count), width / lanes<C>, queries - i0, weights + i0, query_block, 1, dys + i0 * width,
                      tile, false);
        scatter(dv.data + j0 * dv.time, dv.time, tile, count, C(1), dv.accumulate || again);
      }
      if (dk.data != nullptr) {
        on_depth::run(fours(count), width / lanes<C>, queries - i0, dscores + i0, query_block, 1, qs + i0 * width, tile,
                      false);
        scatter(dk.data + j0 * dk.time, dk.time, tile, count, scale, dk.accumulate || again);
      }
      if (dq.data != nullptr)
        on_depth::run((packs - p0) * lanes<C>, width / lanes<C>, count, dscores + i0, 1, query_block, keys,
                      dqs + i0 * width, j0 > 0);
    }
    if (dq.data != nullptr) scatter(dq.data + q0 * dq.time, dq.time, dqs, queries, scale, dq.accumulate);
  }

  // Scores become weights, gradients of weights become gradients of scores.
  template <bool Masked>
  static void unsoften(C* weights, C* dscores, index count, index query, index j0, const C* norm, const C* delta) {
    const pack<C> lse = pack<C>::load(norm);
    const pack<C> mean = pack<C>::load(delta);
    for (index j = 0; j < count; ++j) {
      C* w = weights + j * query_block;
      C* d = dscores + j * query_block;
      pack<C> e = falling_exp(pack<C>::load(w) - lse);
      if constexpr (Masked) e = select(sees(query, j0 + j), e, pack<C>(0));
      e.store(w);
      (e * (pack<C>::load(d) - mean)).store(d);
    }
  }
};

}  // namespace cpu_kit::inline GRADUS_BUILD

template <index Heads>
struct kernel<op::causal_attention<Heads>, cpu> {
  template <class T, class Y, class C, class S, class X>
  static void forward(context<cpu>& ctx, view<T, Y> y, view<C, S> lse, view<const T, X> qkv) {
    using d = dims<X>;
    d::template flash<C>::template forward<T>(ctx, d::batch, Heads, d::output(y.data()), lse.data(),
                                              d::part(qkv.data(), 0), d::part(qkv.data(), 1), d::part(qkv.data(), 2));
  }
  template <class T, class X, class Y, class C, class S>
  static void backward(context<cpu>& ctx, view<T, X> dqkv, bool accumulate, view<const T, Y> dy, view<const T, X> qkv,
                       view<const T, Y> y, view<const C, S> lse) {
    using d = dims<X>;
    d::template flash<C>::template backward<T>(ctx, d::batch, Heads, d::part(dqkv.data(), 0, accumulate),
                                               d::part(dqkv.data(), 1, accumulate), d::part(dqkv.data(), 2, accumulate),
                                               d::output(dy.data()), d::part(qkv.data(), 0), d::part(qkv.data(), 1),
                                               d::part(qkv.data(), 2), d::output(y.data()), lse.data());
  }

 private:
  template <class X>
  struct dims {
    static constexpr index batch = X::extent(0);
    static constexpr index time = X::extent(1);
    static constexpr index width = X::extent(2) / 3;
    static constexpr index depth = width / Heads;
    template <class C>
    using flash = cpu_kit::flash_attention<C, depth, time, time, true>;
    template <class T>
    static attention_operand<T> part(T* data, index which, bool accumulate = false) {
      return {data + which * width, time * 3 * width, depth, 3 * width, accumulate};
    }
    template <class T>
    static attention_operand<T> output(T* data) {
      return {data, time * width, depth, width, false};
    }
  };
};

template <bool Causal>
struct kernel<op::scaled_attention<Causal>, cpu> {
  template <class T, class Q, class C, class S, class K>
  static void forward(context<cpu>& ctx, view<T, Q> y, view<C, S> lse, view<const T, Q> q, view<const T, K> k,
                      view<const T, K> v) {
    flash<C, Q, K>::template forward<T>(ctx, Q::extent(0), Q::extent(1), at(y), lse.data(), at(q), at(k), at(v));
  }
  template <class T, class Q, class K, class C, class S>
  static void backward(context<cpu>& ctx, attention_operand<T> dq, attention_operand<T> dk, attention_operand<T> dv,
                       view<const T, Q> dy, view<const T, Q> q, view<const T, K> k, view<const T, K> v,
                       view<const T, Q> y, view<const C, S> lse) {
    flash<C, Q, K>::template backward<T>(ctx, Q::extent(0), Q::extent(1), dq, dk, dv, at(dy), at(q), at(k), at(v),
                                         at(y), lse.data());
  }

 private:
  template <class C, class Q, class K>
  using flash = cpu_kit::flash_attention<C, Q::extent(3), Q::extent(2), K::extent(2), Causal>;
  template <class T, class S>
  static attention_operand<T> at(view<T, S> x) {
    return {x.data(), S::stride(0), S::stride(1), S::stride(2), false};
  }
};

}  // namespace gradus
