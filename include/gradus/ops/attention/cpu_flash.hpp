#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "../../core/config.hpp"
#include "../../cpu/block_product.hpp"
#include "../../cpu/pairs.hpp"
#include "../../cpu/parallel.hpp"
#include "../../cpu/simd_math.hpp"
#include "../../cpu/rows.hpp"
#include "attention.hpp"

namespace gradus::cpu_kit::inline GRADUS_BUILD {

/// Attention of one head at a time, in blocks of queries against blocks of keys that stay in the cache.
///
/// Scores are held transposed, [keys, queries]: the online softmax over the keys then runs lane by lane, with a query
/// in each lane, and both products of forward find their right operand laid out along the lanes.
///
/// Products are of numbers of type C; or of pairs of bf16, where T is that and the processor multiplies them. Pairs are
/// neighbours along what a product sums over, so scratch that two products read may be there in two ways; of numbers it
/// is the same.
/// @tparam C what scores and sums are computed in
/// @tparam T what operands and results are stored in
/// @tparam Alike the bits are those of attention with as many queries, whose keys lie in the same blocks
template <class C, class T, index_t Depth, index_t Queries, index_t Keys, bool Causal, index_t Alike = Queries>
struct flash_attention {
  static constexpr bool pairs = has_bf16_instructions && std::is_same_v<T, bf16> && std::is_same_v<C, float>;
  static constexpr index_t each = pairs ? 2 : 1;
  using word = std::conditional_t<pairs, std::uint32_t, C>;
  static constexpr index_t words(index_t n) { return (n + each - 1) / each; }
  static constexpr index_t together = std::max<index_t>(lanes<C>, 8);  // scratch is padded to multiples, of whole packs
  static constexpr index_t padded(index_t n) { return (n + together - 1) / together * together; }
  static constexpr index_t width = padded(Depth);  ///< of a scratch row; the padding is zero
  static constexpr index_t fitting(index_t block, index_t least, std::size_t bytes) {
    while (block > least && block * width * sizeof(C) > bytes) block /= 2;
    return block;
  }
  static constexpr index_t most_queries = fitting(64, together, 32 << 10);
  static constexpr index_t query_block = std::min(most_queries, padded(Queries));
  static constexpr index_t key_block = std::min(fitting(32, 8, 16 << 10), std::min(most_queries, padded(Alike)));
  static constexpr index_t query_blocks = (Queries + query_block - 1) / query_block;
  static constexpr index_t key_ranges = (Keys + query_block - 1) / query_block;  // whole key blocks each

  static void forward(context<cpu>& ctx, index_t batch, index_t heads, attention_operand<T> out, C* lse,
                      attention_operand<const T> q, attention_operand<const T> k, attention_operand<const T> v) {
    parallel_tasks(ctx, batch * heads * query_blocks, sizeof(forward_scratch), [=](index_t task, void* memory) {
      const index_t at = query_blocks - 1 - task % query_blocks;
      const index_t pair = task / query_blocks;
      const index_t b = pair / heads;
      const index_t h = pair % heads;
      const index_t q0 = at * query_block;
      forward_block(*static_cast<forward_scratch*>(memory), q0, std::min(query_block, Queries - q0),
                    head(out, b, h) + q0 * out.time, out.time, lse == nullptr ? nullptr : lse + pair * Queries + q0,
                    head(q, b, h) + q0 * q.time, q.time, head(k, b, h), k.time, head(v, b, h), v.time);
    });
  }
  /// Of the first `count` queries, which stand at the times `first` .. first + count - 1 of the keys. `before(b, h)` is
  /// called before head h of sequence b is read.
  template <class F>
  static void forward_at(context<cpu>& ctx, index_t batch, index_t heads, index_t first, index_t count,
                         attention_operand<T> out, attention_operand<const T> q, attention_operand<const T> k,
                         attention_operand<const T> v, const F& before) {
    parallel_tasks(ctx, batch * heads, sizeof(forward_scratch), [&](index_t task, void* memory) {
      const index_t b = task / heads, h = task % heads;
      before(b, h);
      for (index_t i = 0; i < count; i += query_block)
        forward_block(*static_cast<forward_scratch*>(memory), first + i, std::min(query_block, count - i),
                      head(out, b, h) + i * out.time, out.time, nullptr, head(q, b, h) + i * q.time, q.time,
                      head(k, b, h), k.time, head(v, b, h), v.time);
    });
  }
  /// Writes where dq, dk and dv are not null. A head is one task, in which dk and dv gather over its query blocks.
  /// Where that makes too few for the threads, dq and the others are made apart, each by many tasks: 7 products of
  /// blocks then take the place of 5, and add up in the same order.
  static void backward(context<cpu>& ctx, index_t batch, index_t heads, attention_operand<T> dq,
                       attention_operand<T> dk, attention_operand<T> dv, attention_operand<const T> dy,
                       attention_operand<const T> q, attention_operand<const T> k, attention_operand<const T> v,
                       attention_operand<const T> y, const C* lse) {
    const index_t all_heads = batch * heads;
    const auto threads = static_cast<index_t>(thread_count(ctx.stream()));
    const bool shared = dq.data != nullptr && (dq.data == dk.data || dq.data == dv.data);  // tasks would write the same
    const bool apart = !shared && (all_heads + threads - 1) / threads * threads * 5 > all_heads * 7 && query_blocks > 1;
    const index_t parts = apart ? query_blocks + key_ranges : 1;
    const auto none = [](auto x) {
      x.data = nullptr;
      return x;
    };
    parallel_tasks(ctx, all_heads * parts, sizeof(backward_scratch), [=](index_t task, void* memory) {
      auto& room = *static_cast<backward_scratch*>(memory);
      const index_t pair = task / parts;
      const auto here = [b = pair / heads, h = pair % heads](auto x) {
        if (x.data != nullptr) x.data = head(x, b, h);
        return x;
      };
      const auto blocks = [&](index_t first, index_t last, index_t from, index_t to, auto dq_, auto dk_, auto dv_) {
        for (index_t i = first; i < last; ++i)
          backward_block(room, i * query_block, from, to, here(dq_), here(dk_), here(dv_), here(dy), here(q), here(k),
                         here(v), here(y), lse + pair * Queries);
      };
      const index_t part = task % parts;
      if (!apart) {
        blocks(0, query_blocks, 0, Keys, dq, dk, dv);
      } else if (part < key_ranges) {
        if (dk.data == nullptr && dv.data == nullptr) return;
        blocks(Causal ? part : 0, query_blocks, part * query_block, std::min(Keys, (part + 1) * query_block), none(dq),
               dk, dv);
      } else {
        if (dq.data == nullptr) return;
        const index_t i = query_blocks - 1 - (part - key_ranges);
        blocks(i, i + 1, 0, Keys, dq, none(dk), none(dv));
      }
    });
  }

 private:
  static constexpr C lowest = std::numeric_limits<C>::lowest();
  static constexpr C scale = static_cast<C>(gradus::detail::inverse_square_root(Depth));
  using on_queries = block_product<C, query_block, query_block, word>;  // right operand and result along queries
  using on_depth = block_product<C, width, width, word>;

  template <class U>
  static U* head(const attention_operand<U>& x, index_t b, index_t h) {
    return x.data + b * x.batch + h * x.head;
  }
  static constexpr index_t keys_end(index_t q0, index_t queries) {
    return Causal ? std::min(Keys, q0 + queries) : Keys;
  }
  // The first pack of queries that sees a key from j0 on; those before it are above the diagonal.
  static constexpr index_t first_pack(index_t q0, index_t j0) { return Causal && j0 > q0 ? (j0 - q0) / lanes<C> : 0; }
  static constexpr index_t fours(index_t n) { return (n + 3) / 4 * 4; }

  // Rows of a head into scratch rows padded with zeros, words along them; zero rows follow up to `padded_rows`.
  static void gather(word* to, const T* from, index_t stride, index_t rows, index_t padded_rows) {
    for (index_t r = 0; r < rows; ++r) {
      if constexpr (pairs) {
        word* const row = to + r * words(width);
        std::fill(row + Depth / each, row + words(width), word(0));
        std::memcpy(row, static_cast<const void*>(from + r * stride), Depth * sizeof(T));
      } else {
        for_packs<C>(Depth, [&](index_t i, auto n) { load<C>(from + r * stride + i, n).store(to + r * width + i); });
      }
    }
    for (index_t r = rows; r < padded_rows; ++r) std::fill_n(to + r * words(width), words(width), word(0));
  }
  // The same, words across the rows: a row of them has two rows of the head.
  static void gather_across(word* to, const T* from, index_t stride, index_t rows) {
    if constexpr (pairs) {
      for (index_t r = 0; r < rows; r += 2, from += 2 * stride, to += width) {
        index_t d = 0;
        if (r + 1 < rows)
          for (; d + lanes<C> <= Depth; d += lanes<C>) {
            typename vector_of<word, lanes<C>>::type joined;
            join_pairs<lanes<C>>(from + d, from + stride + d, joined);
            std::memcpy(to + d, &joined, sizeof joined);
          }
        for (; d < Depth; ++d) to[d] = join_pair(from[d], r + 1 < rows ? from[stride + d] : T{});
        std::fill(to + Depth, to + width, word(0));
      }
    }
  }
  // Scratch rows times `factor` into rows of a head.
  static void scatter(T* to, index_t stride, const C* from, index_t rows, C factor, bool accumulate) {
    for (index_t r = 0; r < rows; ++r)
      for_packs<C>(Depth, [&](index_t i, auto n) {
        put(pack<C>::load(from + r * width + i) * pack<C>(factor), to + r * stride + i, accumulate, n);
      });
  }
  // to [words(Depth), query_block] = rows^T; of numbers, times `factor`.
  static void transpose_rows(word* to, const word* rows, index_t packs, C factor) {
    for (index_t i = 0; i < packs * lanes<C>; ++i)
      for (index_t d = 0; d < words(Depth); ++d) {
        const word x = rows[i * words(width) + d];
        if constexpr (pairs) to[d * query_block + i] = x;
        else to[d * query_block + i] = factor * x;
      }
  }
  // Scores come out scaled where the queries were, and otherwise are scaled now.
  static GRADUS_INLINE pack<C> scaled(pack<C> score) {
    if constexpr (pairs) return score * pack<C>(scale);
    else return score;
  }

  // Results for one key after another, of a pack of queries. As numbers they stand where they are. As pairs they are
  // rounded, and put down with words along the queries, across the keys, or both.
  class pair_writer {
   public:
    pair_writer(word* along, word* across) : along_(along), across_(across) {}
    GRADUS_INLINE void write(index_t j, pack<C> x) {
      const halves rounded = round_to_bf16(x.v);
      if (along_ != nullptr) std::memcpy(along_ + j * words(query_block), &rounded, sizeof rounded);
      if (across_ == nullptr) return;
      if (j % 2 == 0) first_ = rounded;
      else join(j, rounded);
    }
    // After the last key.
    GRADUS_INLINE void finish(index_t count) {
      if (across_ != nullptr && count % 2 == 1) join(count, halves{});
    }

   private:
    using halves = typename vector_of<std::uint16_t, 16>::type;
    GRADUS_INLINE void join(index_t j, halves second) const {
      using joined = typename vector_of<word, 16>::type;
      const joined x = __builtin_convertvector(first_, joined) | (__builtin_convertvector(second, joined) << 16);
      std::memcpy(across_ + j / 2 * query_block, &x, sizeof x);
    }
    word* along_;
    word* across_;
    halves first_{};
  };

  // e^x for x <= 0, not going below the smallest normal number: subnormals are slow, and no sum here can tell.
  static GRADUS_INLINE pack<C> weight_of(pack<C> x) {
    const pack<C> low(sizeof(C) == 4 ? C(-87) : C(-700));
    return falling_exp<T>(select(x < low, low, x));
  }
  // Which of the queries in a pack from `query` on see key j.
  static GRADUS_INLINE pack_mask<C> sees(index_t query, index_t j) {
    pack<C> lane;
    for (index_t i = 0; i < lanes<C>; ++i) lane.v[i] = static_cast<C>(i);
    return lane >= pack<C>(static_cast<C>(static_cast<std::ptrdiff_t>(j) - static_cast<std::ptrdiff_t>(query)));
  }

  // What a task works in. Of numbers, one array serves for both ways in which there are pairs.
  template <index_t Words>
  struct second_way {
    alignas(64) word memory[pairs ? Words : 1];
    word* or_the(word* numbers) { return pairs ? memory : numbers; }
  };
  static word* as_words(C* numbers) { return static_cast<word*>(static_cast<void*>(numbers)); }
  struct forward_scratch {
    alignas(64) word qt[words(Depth) * query_block];
    alignas(64) word keys[key_block * words(width)];
    alignas(64) word values[words(key_block) * width];
    alignas(64) C scores[key_block * query_block];
    second_way<words(key_block) * query_block> weights;
    alignas(64) C sums[query_block * width];
    alignas(64) C largest[query_block];
    alignas(64) C total[query_block];
    alignas(64) C fade[query_block];
  };
  struct backward_scratch {
    alignas(64) word qs[query_block * words(width)];
    alignas(64) word dys[query_block * words(width)];
    second_way<words(query_block) * width> qs_across, dys_across;
    alignas(64) C dqs[query_block * width];
    alignas(64) word qt[words(Depth) * query_block];
    alignas(64) word dyt[words(Depth) * query_block];
    alignas(64) word keys[key_block * words(width)];
    second_way<words(key_block) * width> keys_across;
    alignas(64) word values[key_block * words(width)];
    alignas(64) C tile[key_block * width];
    alignas(64) C weights[key_block * query_block];
    alignas(64) C dscores[key_block * query_block];
    second_way<key_block * words(query_block)> weights_along, dscores_along;
    second_way<words(key_block) * query_block> dscores_across;
    alignas(64) C norm[query_block];
    alignas(64) C delta[query_block];
  };

  // Of `queries` queries from the time q0 on; `out`, `lse` and `q` are theirs.
  static void forward_block(forward_scratch& room, index_t q0, index_t queries, T* out, index_t out_stride, C* lse,
                            const T* q, index_t q_stride, const T* k, index_t k_stride, const T* v, index_t v_stride) {
    const index_t packs = padded(queries) / lanes<C>;
    const index_t rows = (queries + 1) / 2 * 2;  // of sums: a block_product takes two
    auto& [qt, keys, values, scores, second_weights, sums, largest, total, fade] = room;
    word* const weights = second_weights.or_the(as_words(scores));
    gather(as_words(sums), q, q_stride, queries, packs * lanes<C>);
    transpose_rows(qt, as_words(sums), packs, scale);
    std::fill_n(largest, query_block, lowest);
    std::fill_n(total, query_block, C(0));
    const index_t end = keys_end(q0, queries);
    for (index_t j0 = 0; j0 < end; j0 += key_block) {
      const index_t count = std::min(key_block, end - j0);
      const index_t p0 = first_pack(q0, j0);
      const index_t i0 = p0 * lanes<C>;
      gather(keys, k + j0 * k_stride, k_stride, count, fours(count));
      if constexpr (pairs) gather_across(values, v + j0 * v_stride, v_stride, count);
      else gather(values, v + j0 * v_stride, v_stride, count, count);
      on_queries::run(fours(count), packs - p0, words(Depth), keys, words(width), 1, qt + i0, scores + i0, false);
      for (index_t p = p0; p < packs; ++p) {
        const index_t i = p * lanes<C>;
        if (Causal && j0 + count > q0 + i + 1)
          soften<true>(scores + i, weights + i, count, q0 + i, j0, largest + i, total + i, fade + i);
        else soften<false>(scores + i, weights + i, count, q0 + i, j0, largest + i, total + i, fade + i);
      }
      if (j0 > 0)
        for (index_t i = i0; i < rows; ++i)
          for (index_t d = 0; d < width; d += lanes<C>)
            (pack<C>::load(sums + i * width + d) * pack<C>(fade[i])).store(sums + i * width + d);
      on_depth::run(rows - i0, width / lanes<C>, words(count), weights + i0, 1, query_block, values, sums + i0 * width,
                    j0 > 0);
    }
    for (index_t i = 0; i < queries; ++i) {
      scatter(out + i * out_stride, 0, sums + i * width, 1, C(1) / total[i], false);
      if (lse != nullptr) lse[i] = largest[i] + std::log(total[i]);
    }
  }

  // One step of the online softmax for a pack of queries: weights are exp(score - largest so far), in the place of the
  // scores where they are numbers; `fade` is what earlier sums must be multiplied by.
  template <bool Masked>
  static void soften(C* scores, [[maybe_unused]] word* weights, index_t count, index_t query, index_t j0, C* largest,
                     C* total, C* fade) {
    const pack<C> before = pack<C>::load(largest);
    pack<C> best = before;
    for (index_t j = 0; j < count; ++j) {
      pack<C> s = scaled(pack<C>::load(scores + j * query_block));
      if constexpr (Masked) s = select(sees(query, j0 + j), s, pack<C>(lowest));
      best = select(s > best, s, best);
    }
    pack<C> sum(0);
    const auto weight = [&](index_t j) {
      pack<C> e = weight_of(scaled(pack<C>::load(scores + j * query_block)) - best);
      if constexpr (Masked) e = select(sees(query, j0 + j), e, pack<C>(0));
      sum = sum + e;
      return e;
    };
    if constexpr (pairs) {
      pair_writer to(nullptr, weights);
      for (index_t j = 0; j < count; ++j) to.write(j, weight(j));
      to.finish(count);
    } else {
      for (index_t j = 0; j < count; ++j) weight(j).store(scores + j * query_block);
    }
    const pack<C> f = weight_of(before - best);
    f.store(fade);
    (pack<C>::load(total) * f + sum).store(total);
    best.store(largest);
  }

  // Of the queries from q0 on against keys from .. to-1.
  static void backward_block(backward_scratch& room, index_t q0, index_t from, index_t to, attention_operand<T> dq,
                             attention_operand<T> dk, attention_operand<T> dv, attention_operand<const T> dy,
                             attention_operand<const T> q, attention_operand<const T> k, attention_operand<const T> v,
                             attention_operand<const T> y, const C* lse) {
    const index_t queries = std::min(query_block, Queries - q0);
    const index_t packs = padded(queries) / lanes<C>;
    auto& [qs, dys, second_qs, second_dys, dqs, qt, dyt, keys, second_keys, values, tile, weights, dscores,
           second_weights, second_dscores, third_dscores, norm, delta] = room;
    word* const qs_across = second_qs.or_the(qs);
    word* const dys_across = second_dys.or_the(dys);
    word* const keys_across = second_keys.or_the(keys);
    word* const weights_along = second_weights.or_the(as_words(weights));
    word* const dscores_along = second_dscores.or_the(as_words(dscores));
    word* const dscores_across = third_dscores.or_the(as_words(dscores));
    std::fill_n(norm, query_block, C(0));
    std::fill_n(delta, query_block, C(0));
    gather(qs, q.data + q0 * q.time, q.time, queries, packs * lanes<C>);
    gather(dys, dy.data + q0 * dy.time, dy.time, queries, packs * lanes<C>);
    gather_across(qs_across, q.data + q0 * q.time, q.time, queries);
    gather_across(dys_across, dy.data + q0 * dy.time, dy.time, queries);
    transpose_rows(qt, qs, packs, scale);
    transpose_rows(dyt, dys, packs, C(1));
    std::copy_n(lse + q0, queries, norm);
    for (index_t i = 0; i < queries; ++i) {  // delta = dy . y = sum over keys of weight times its gradient
      pack<C> sum(0);
      const T* const gradient = dy.data + (q0 + i) * dy.time;
      const T* const row = y.data + (q0 + i) * y.time;
      for_packs<C>(Depth, [&](index_t d, auto n) { sum = sum + load<C>(gradient + d, n) * load<C>(row + d, n); });
      delta[i] = sum_lanes(sum);
    }
    const index_t end = std::min(to, keys_end(q0, queries));
    for (index_t j0 = from; j0 < end; j0 += key_block) {
      const index_t count = std::min(key_block, end - j0);
      const index_t p0 = first_pack(q0, j0);
      const index_t i0 = p0 * lanes<C>;
      gather(keys, k.data + j0 * k.time, k.time, count, fours(count));
      gather_across(keys_across, k.data + j0 * k.time, k.time, count);
      gather(values, v.data + j0 * v.time, v.time, count, fours(count));
      on_queries::run(fours(count), packs - p0, words(Depth), keys, words(width), 1, qt + i0, weights + i0, false);
      on_queries::run(fours(count), packs - p0, words(Depth), values, words(width), 1, dyt + i0, dscores + i0, false);
      for (index_t p = p0; p < packs; ++p) {
        const index_t i = p * lanes<C>;
        const pair_place at{weights_along + i / each, dscores_along + i / each, dscores_across + i};
        if (Causal && j0 + count > q0 + i + 1)
          unsoften<true>(weights + i, dscores + i, at, count, q0 + i, j0, norm + i, delta + i);
        else unsoften<false>(weights + i, dscores + i, at, count, q0 + i, j0, norm + i, delta + i);
      }
      const bool again = q0 / query_block > (Causal ? j0 / query_block : 0);  // an earlier query block wrote dk and dv
      if (dv.data != nullptr) {
        on_depth::run(fours(count), width / lanes<C>, words(queries - i0), weights_along + i0 / each,
                      words(query_block), 1, dys_across + i0 / each * width, tile, false);
        scatter(dv.data + j0 * dv.time, dv.time, tile, count, C(1), dv.accumulate || again);
      }
      if (dk.data != nullptr) {
        on_depth::run(fours(count), width / lanes<C>, words(queries - i0), dscores_along + i0 / each,
                      words(query_block), 1, qs_across + i0 / each * width, tile, false);
        scatter(dk.data + j0 * dk.time, dk.time, tile, count, scale, dk.accumulate || again);
      }
      if (dq.data != nullptr)
        on_depth::run((packs - p0) * lanes<C>, width / lanes<C>, words(count), dscores_across + i0, 1, query_block,
                      keys_across, dqs + i0 * width, j0 > 0);
    }
    if (dq.data != nullptr) scatter(dq.data + q0 * dq.time, dq.time, dqs, queries, scale, dq.accumulate);
  }

  // Where a pack of queries has its pairs.
  struct pair_place {
    word* weights_along;
    word* dscores_along;
    word* dscores_across;
  };
  // Scores become weights, gradients of weights become gradients of scores.
  template <bool Masked>
  static void unsoften(C* weights, C* dscores, [[maybe_unused]] const pair_place& at, index_t count, index_t query,
                       index_t j0, const C* norm, const C* delta) {
    const pack<C> lse = pack<C>::load(norm);
    const pack<C> mean = pack<C>::load(delta);
    const auto weight = [&](index_t j) {
      pack<C> e = weight_of(scaled(pack<C>::load(weights + j * query_block)) - lse);
      if constexpr (Masked) e = select(sees(query, j0 + j), e, pack<C>(0));
      return e;
    };
    if constexpr (pairs) {
      pair_writer to_weights(at.weights_along, nullptr), to_dscores(at.dscores_along, at.dscores_across);
      for (index_t j = 0; j < count; ++j) {
        const pack<C> e = weight(j);
        to_weights.write(j, e);
        to_dscores.write(j, e * (pack<C>::load(dscores + j * query_block) - mean));
      }
      to_dscores.finish(count);
    } else {
      for (index_t j = 0; j < count; ++j) {
        C* d = dscores + j * query_block;
        const pack<C> e = weight(j);
        e.store(weights + j * query_block);
        (e * (pack<C>::load(d) - mean)).store(d);
      }
    }
  }
};

}  // namespace gradus::cpu_kit::inline GRADUS_BUILD
