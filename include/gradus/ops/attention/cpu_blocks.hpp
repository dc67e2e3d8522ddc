#pragma once
// The mathematics of attention's blocks: of one head, some queries against some keys, in scratch memory.

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

/// Blocks of queries against blocks of keys that stay in the cache.
///
/// Scores are held transposed, [keys, queries]: the online softmax over the keys then runs lane by lane, with a query
/// in each lane, and both products of forward find their right operand laid out along the lanes.
///
/// Products are of numbers of type C; or of pairs of bf16, where T is that and the processor multiplies them. Pairs are
/// neighbours along what a product sums over, so scratch that two products read may be there in two ways; of numbers it
/// is the same.
/// @tparam C what scores and sums are computed in
/// @tparam T what operands and results are stored in
template <class C, class T, index_t Depth>
struct attention_blocks {
  static constexpr bool pairs = has_bf16_instructions && std::is_same_v<T, bf16> && std::is_same_v<C, float>;
  static constexpr index_t per_word = pairs ? 2 : 1;
  using word = std::conditional_t<pairs, std::uint32_t, C>;
  static constexpr index_t words(index_t n) { return (n + per_word - 1) / per_word; }
  static constexpr index_t pad = std::max<index_t>(lanes<C>, 8);  // scratch is padded to multiples, of whole packs
  static constexpr index_t padded(index_t n) { return (n + pad - 1) / pad * pad; }
  static constexpr index_t width = padded(Depth);  ///< of a scratch row; the padding is zero
  static constexpr index_t fitting(index_t block, index_t least, std::size_t bytes) {
    while (block > least && block * width * sizeof(C) > bytes) block /= 2;
    return block;
  }
  static constexpr index_t query_block = fitting(64, pad, 32 << 10);  ///< rows of scratch for queries
  static constexpr index_t most_keys = std::min(fitting(32, 8, 16 << 10), query_block);  ///< and for keys
  /// Keys that are taken at once, for the bits of attention with so many queries.
  static constexpr index_t key_block(index_t queries) { return std::min(most_keys, padded(queries)); }
  static constexpr index_t depth = Depth;
  using number = C;
  static constexpr C lowest = std::numeric_limits<C>::lowest();
  static constexpr C scale = static_cast<C>(gradus::detail::inverse_square_root(Depth));
  using on_queries = block_product<C, query_block, query_block, word>;  // right operand and result along queries
  using on_depth = block_product<C, width, width, word>;

  static constexpr index_t fours(index_t n) { return (n + 3) / 4 * 4; }

  // Rows of a head into scratch rows padded with zeros, words along them; zero rows follow up to `padded_rows`.
  static void gather(word* to, const T* from, index_t stride, index_t rows, index_t padded_rows) {
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

  static word* as_words(C* numbers) { return static_cast<word*>(static_cast<void*>(numbers)); }
  // Of numbers, one array serves for both ways in which there are pairs.
  template <index_t Words>
  struct second_way {
    alignas(64) word memory[pairs ? Words : 1];
    word* or_the(word* numbers) { return pairs ? memory : numbers; }
  };

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
