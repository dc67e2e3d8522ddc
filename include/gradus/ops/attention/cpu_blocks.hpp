#pragma once
// Attention on the CPU, one block: the online softmax and matrix products of some queries and some keys, in scratch.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "../../core/config.hpp"
#include "../../cpu/block_product.hpp"
#include "../../cpu/pairs.hpp"
#include "../../cpu/rows.hpp"
#include "../../cpu/simd_math.hpp"
#include "attention.hpp"

namespace gradus::cpu_kit::inline GRADUS_BUILD {

/// Blocks of queries and blocks of keys that stay in the cache.
///
/// Scores are stored transposed, [keys, queries]: a lane of the softmax is a query, and products read along the lanes.
///
/// Products use elements of type C; or, if T is bf16 and the processor has dot products of bf16 pairs, words of two
/// elements that are adjacent along the summed dimension. Two products that sum over different dimensions then need two
/// copies of an operand.
/// @tparam C type of scores and sums
/// @tparam T type of operands and results
template <class C, class T, index_t Depth>
struct attention_blocks {
  static constexpr bool pairs = has_bf16_instructions && std::is_same_v<T, bf16> && std::is_same_v<C, float>;
  static constexpr index_t per_word = pairs ? 2 : 1;
  using word = std::conditional_t<pairs, std::uint32_t, C>;
  static constexpr index_t words(index_t n) { return (n + per_word - 1) / per_word; }
  static constexpr index_t pad = std::max<index_t>(lanes<C>, 8);  // scratch extents are multiples of it: whole packs
  static constexpr index_t padded(index_t n) { return (n + pad - 1) / pad * pad; }
  static constexpr index_t width = padded(Depth);  ///< of a scratch row, padded with zeros
  static constexpr index_t largest_fitting(index_t block, index_t least, std::size_t bytes) {
    while (block > least && block * width * sizeof(C) > bytes) block /= 2;
    return block;
  }
  static constexpr index_t query_block = largest_fitting(64, pad, 32 << 10);  ///< rows of scratch for queries
  static constexpr index_t max_key_block = std::min(largest_fitting(32, 8, 16 << 10), query_block);  ///< and for keys
  /// Keys per block. It determines the order of summation, hence the bits.
  static constexpr index_t key_block(index_t queries) { return std::min(max_key_block, padded(queries)); }
  static constexpr index_t depth = Depth;
  using number = C;
  static constexpr C lowest = std::numeric_limits<C>::lowest();
  static constexpr C scale = static_cast<C>(gradus::detail::inverse_square_root(Depth));
  using on_queries = block_product<C, query_block, query_block, word>;  // right operand and result: rows of queries
  using on_depth = block_product<C, width, width, word>;

  static constexpr index_t fours(index_t n) { return (n + 3) / 4 * 4; }

  // Copies rows of a head to scratch rows padded with zeros, words along the row; rows up to `padded_rows` become zero.
  static void load_rows(word* to, const T* from, index_t stride, index_t rows, index_t padded_rows) {
    for (index_t r = 0; r < rows; ++r) {
      if constexpr (pairs) {
        word* const row = to + r * words(width);
        std::fill(row + Depth / per_word, row + words(width), word(0));
        std::memcpy(row, static_cast<const void*>(from + r * stride), Depth * sizeof(T));
      } else {
        for_packs<C>(Depth, [&](index_t i, auto n) { load<C>(from + r * stride + i, n).store(to + r * width + i); });
      }
    }
    for (index_t r = rows; r < padded_rows; ++r) std::fill_n(to + r * words(width), words(width), word(0));
  }
  // load_rows with words across the rows: a scratch row interleaves two rows of the head.
  static void load_row_pairs(word* to, const T* from, index_t stride, index_t rows) {
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
  // Stores scratch rows, times `factor`, to rows of a head.
  template <class U>
  static void store_rows(U* to, index_t stride, const C* from, index_t rows, C factor, bool accumulate) {
    for (index_t r = 0; r < rows; ++r)
      for_packs<C>(Depth, [&](index_t i, auto n) {
        put(pack<C>::load(from + r * width + i) * pack<C>(factor), to + r * stride + i, accumulate, n);
      });
  }
  // to [words(Depth), query_block] = rows^T; times `factor` unless the words are pairs.
  static void transpose_rows(word* to, const word* rows, index_t packs, C factor) {
    for (index_t i = 0; i < packs * lanes<C>; ++i)
      for (index_t d = 0; d < words(Depth); ++d) {
        const word x = rows[i * words(width) + d];
        if constexpr (pairs) to[d * query_block + i] = x;
        else to[d * query_block + i] = factor * x;
      }
  }
  // Scores of pairs are scaled here; for elements, transpose_rows() scaled the queries.
  static GRADUS_INLINE pack<C> scaled(const C* scores, C factor) {
    if constexpr (pairs) return pack<C>::load(scores) * pack<C>(factor);
    else return pack<C>::load(scores);
  }

  // Writes results of a pack of queries, key after key, as bf16 pairs: along the queries, across the keys, or both.
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

  // e^x for x <= 0, at least the smallest normal number: subnormals are slow and do not change the sums.
  static GRADUS_INLINE pack<C> weight_of(pack<C> x) {
    const pack<C> low(sizeof(C) == 4 ? C(-87) : C(-700));
    return falling_exp<T>(select(x < low, low, x));
  }
  // Which queries of the pack from `query` on attend to key j.
  static GRADUS_INLINE pack_mask<C> sees(index_t query, index_t j) {
    pack<C> lane;
    for (index_t i = 0; i < lanes<C>; ++i) lane.v[i] = static_cast<C>(i);
    return lane >= pack<C>(static_cast<C>(static_cast<std::ptrdiff_t>(j) - static_cast<std::ptrdiff_t>(query)));
  }

  static word* as_words(C* numbers) { return static_cast<word*>(static_cast<void*>(numbers)); }
  // A second copy of an operand, with pairs along the other dimension; elements need no second copy.
  template <index_t Words>
  struct pair_buffer {
    alignas(64) word memory[pairs ? Words : 1];
    word* data_or(word* numbers) { return pairs ? memory : numbers; }
  };

  // What the softmax of a pack of queries reads: products with keys, above the diagonal masked if Masked.
  template <bool Masked>
  struct products {
    static constexpr bool stores_gradients = false;  ///< of the scores, as numbers
    index_t query, j0;                               ///< of the pack and of the block of keys

    GRADUS_INLINE pack<C> score(index_t j, const C* at) const {
      const pack<C> s = scaled(at, scale);
      if constexpr (Masked) return select(sees(query, j0 + j), s, pack<C>(lowest));
      else return s;
    }
    // exp(score - shift), after score().
    GRADUS_INLINE pack<C> weight(index_t j, const C* at, pack<C> shift) const {
      const pack<C> e = weight_of(scaled(at, scale) - shift);
      if constexpr (Masked) return select(sees(query, j0 + j), e, pack<C>(0));
      else return e;
    }
    // exp(score - shift), without score() before.
    GRADUS_INLINE pack<C> weight_again(index_t j, const C* at, pack<C> shift) const { return weight(j, at, shift); }
    // What dropout leaves of a weight or of its gradient.
    GRADUS_INLINE pack<C> kept(index_t, pack<C> x) const { return x; }
    // The gradient of a score as that of the product, after weight_again().
    GRADUS_INLINE pack<C> uncapped(const C*, pack<C> gradient) const { return gradient; }
  };

  // One step of the online softmax for a pack of queries: replaces scores by weights exp(score - row_max), or writes
  // the weights as pairs; `rescale` is the factor of the earlier sums.
  template <class From>
  static void softmax_step(const From& from, C* scores, [[maybe_unused]] word* weights, index_t count, C* row_max,
                           C* row_sum, C* rescale) {
    const pack<C> old_max = pack<C>::load(row_max);
    pack<C> new_max = old_max;
    for (index_t j = 0; j < count; ++j) {
      const pack<C> s = from.score(j, scores + j * query_block);
      new_max = select(s > new_max, s, new_max);
    }
    pack<C> sum(0);
    const auto weight = [&](index_t j) {
      const pack<C> e = from.weight(j, scores + j * query_block, new_max);
      sum = sum + e;
      return from.kept(j, e);
    };
    if constexpr (pairs) {
      pair_writer to(nullptr, weights);
      for (index_t j = 0; j < count; ++j) to.write(j, weight(j));
      to.finish(count);
    } else {
      for (index_t j = 0; j < count; ++j) weight(j).store(scores + j * query_block);
    }
    const pack<C> f = weight_of(old_max - new_max);
    f.store(rescale);
    (pack<C>::load(row_sum) * f + sum).store(row_sum);
    new_max.store(row_max);
  }

  // Where softmax_backward_step() writes the pairs of a pack of queries.
  struct pair_targets {
    word* weights_along;
    word* dscores_along;
    word* dscores_across;
  };
  // Replaces scores by weights, and gradients of weights by gradients of scores.
  template <class From>
  static void softmax_backward_step(const From& from, C* weights, C* dscores, [[maybe_unused]] const pair_targets& at,
                                    index_t count, const C* row_lse, const C* row_delta) {
    const pack<C> lse = pack<C>::load(row_lse);
    const pack<C> delta = pack<C>::load(row_delta);
    if constexpr (pairs) {
      pair_writer to_weights(at.weights_along, nullptr), to_dscores(at.dscores_along, at.dscores_across);
      for (index_t j = 0; j < count; ++j) {
        C* d = dscores + j * query_block;
        const pack<C> e = from.weight_again(j, weights + j * query_block, lse);
        to_weights.write(j, from.kept(j, e));
        const pack<C> gradient = from.uncapped(weights + j * query_block, e * (from.kept(j, pack<C>::load(d)) - delta));
        if constexpr (From::stores_gradients) gradient.store(d);
        to_dscores.write(j, gradient);
      }
      to_dscores.finish(count);
    } else {
      for (index_t j = 0; j < count; ++j) {
        C* d = dscores + j * query_block;
        const pack<C> e = from.weight_again(j, weights + j * query_block, lse);
        from.uncapped(weights + j * query_block, e * (from.kept(j, pack<C>::load(d)) - delta)).store(d);
        from.kept(j, e).store(weights + j * query_block);
      }
    }
  }
};

}  // namespace gradus::cpu_kit::inline GRADUS_BUILD
