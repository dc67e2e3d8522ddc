#pragma once
// Attention on the CPU, the rules of one head: which blocks of keys count, and how their scores are masked and changed.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "../../core/config.hpp"
#include "../../cpu/philox_lanes.hpp"
#include "../dropout/cpu.hpp"
#include "cpu_blocks.hpp"
#include "options.hpp"

namespace gradus::cpu_kit::inline GRADUS_BUILD {

/// Extents of one attention. The bits of its result depend on key_block.
struct attention_extents {
  index_t batch, heads, queries, keys;
  bool causal;
  index_t key_block;  ///< keys per block
  index_t group = 1;  ///< heads of queries that share a head of keys and values
};

/// A head without options: the scores above the diagonal are masked if attention is causal.
template <class B>
class plain_head {
 public:
  struct buffers {};                             ///< scratch
  static constexpr bool starts_at_zero = false;  ///< results are zeros to which every block of keys is added

  plain_head(const attention_extents& extents, index_t, index_t, buffers&) : of_(extents) {}
  static constexpr auto scale() { return B::scale; }
  static constexpr index_t first_key(index_t) { return 0; }
  // Where a block of keys from j0 on ends at the latest.
  static constexpr index_t end_block(index_t, index_t end) { return end; }
  index_t end_key(index_t q0, index_t count) const { return of_.causal ? std::min(of_.keys, q0 + count) : of_.keys; }
  // The first query from q0 on that attends to key j0, less q0; earlier ones are above the diagonal.
  index_t first_query(index_t q0, index_t j0) const { return of_.causal && j0 > q0 ? j0 - q0 : 0; }
  // One behind the last of the queries from q0 on that attends to a key before `end`, less q0.
  static constexpr index_t end_query(index_t, index_t queries, index_t) { return queries; }
  // Whether any of these queries attends to one of the keys j0 .. j0 + count - 1.
  static constexpr bool enter(index_t, index_t, index_t, index_t) { return true; }
  // Whether an earlier block of keys has written the sums of queries.
  static constexpr bool adds(index_t j0) { return j0 > 0; }
  // Whether an earlier block of queries has written the gradients of keys.
  bool adds_to_keys(index_t q0, index_t j0) const {
    return q0 / B::query_block > (of_.causal ? j0 / B::query_block : 0);
  }
  static constexpr auto weight_sum_inverse(typename B::number sum) { return 1 / sum; }
  // Calls f with the scores of the pack of queries from q0 + i on.
  template <class F>
  GRADUS_INLINE void scores(index_t q0, index_t i, index_t j0, index_t count, const F& f) const {
    if (of_.causal && j0 + count > q0 + i + 1) f(typename B::template products<true>{q0 + i, j0});
    else f(typename B::template products<false>{q0 + i, j0});
  }

 private:
  const attention_extents& of_;
};

/// A head with options.
template <class B>
class ruled_head {
  using C = typename B::number;
  static constexpr index_t draws = philox_lanes::halves;  ///< of a key: for all queries of a block
  static_assert(B::query_block <= draws && B::query_block % 8 == 0);

 public:
  struct buffers {
    alignas(64) C bias[B::max_key_block * B::query_block];
    alignas(64) std::uint16_t halves[B::max_key_block * draws];
  };
  static constexpr bool starts_at_zero = true;

  ruled_head(const attention_rules<C>& rules, index_t b, index_t h, buffers& memory)
      : is_(rules), b_(b), pair_(b * rules.heads + h), memory_(memory) {
    if (rules.bias != nullptr) bias_ = rules.bias + rules.bias_head(b, h) * rules.queries * rules.keys;
  }
  C scale() const { return is_.scale; }
  // Blocks are counted from the beginning of their document, so that it has the bits of one alone, and end with it.
  index_t first_key(index_t q0) const {
    const index_t begin = is_.document(b_, q0).begin;
    return begin + (is_.first_key(b_, q0) - begin) / B::max_key_block * B::max_key_block;
  }
  index_t end_block(index_t j0, index_t end) const { return std::min(end, std::max(j0 + 1, is_.document(b_, j0).end)); }
  index_t end_key(index_t q0, index_t count) const { return is_.end_key(b_, q0 + count - 1); }
  index_t first_query(index_t q0, index_t j0) const { return std::max(q0, is_.first_query(b_, j0)) - q0; }
  index_t end_query(index_t q0, index_t queries, index_t end) const {
    return std::clamp(is_.end_query(b_, end - 1), q0, q0 + queries) - q0;
  }
  // Prepares masks, bias and draws of this block.
  bool enter(index_t q0, index_t queries, index_t j0, index_t count) {
    mask_ = is_.mask == nullptr ? nullptr : is_.mask + b_ * is_.keys + j0;
    if (mask_ != nullptr) {
      const auto seen = static_cast<index_t>(std::count(mask_, mask_ + count, true));
      if (seen == 0) return false;
      if (seen == count) mask_ = nullptr;
    }
    if (end_query(q0, queries, j0 + count) <= first_query(q0, j0)) return false;
    document_ = is_.document(b_, j0);
    if (bias_ != nullptr) {
      std::fill_n(memory_.bias, count * B::query_block, C(0));
      for (index_t i = 0; i < queries; ++i)
        for (index_t j = 0; j < count; ++j) memory_.bias[j * B::query_block + i] = bias_[(q0 + i) * is_.keys + j0 + j];
    }
    if (is_.threshold > 0)
      for (index_t j = 0; j < count; ++j)
        philox_lanes::draw(is_.key, (is_.draw_of(pair_, j0 + j) + q0) / 8).store(memory_.halves + j * draws);
    return true;
  }
  static constexpr bool adds(index_t) { return true; }
  static constexpr bool adds_to_keys(index_t, index_t) { return true; }
  static C weight_sum_inverse(C sum) { return sum == 0 ? C(0) : 1 / sum; }

  // The scores of a pack of queries that all see all keys of the block.
  struct scaled_products {
    static constexpr bool stores_gradients = true;
    C scale;
    GRADUS_INLINE pack<C> score(index_t, const C* at) const { return B::scaled(at, scale); }
    GRADUS_INLINE pack<C> weight(index_t, const C* at, pack<C> shift) const {
      return B::weight_of(B::scaled(at, scale) - shift);
    }
    GRADUS_INLINE pack<C> weight_again(index_t j, const C* at, pack<C> shift) const { return weight(j, at, shift); }
    GRADUS_INLINE pack<C> kept(index_t, pack<C> x) const { return x; }
    GRADUS_INLINE pack<C> uncapped(const C*, pack<C> gradient) const { return gradient; }
  };
  // The scores of a pack of queries with a cap, masks, bias and dropout; score() replaces the products by them.
  struct ruled_scores {
    static constexpr bool stores_gradients = true;
    C scale;
    std::ptrdiff_t distance;      ///< from the first query of the pack to the first key of the block
    std::ptrdiff_t back, ahead;   ///< how far a query sees
    std::ptrdiff_t first, last;   ///< queries of the keys' document, less the first of the pack
    const bool* mask;             ///< null: all
    const C* bias;                ///< null: none
    const std::uint16_t* halves;  ///< null: no dropout
    std::uint32_t threshold;
    C factor;
    C cap;  ///< 0: none

    GRADUS_INLINE pack_mask<C> sees(index_t j) const {
      pack<C> lane;
      for (index_t i = 0; i < lanes<C>; ++i) lane.v[i] = static_cast<C>(i);
      const std::ptrdiff_t d = distance + static_cast<std::ptrdiff_t>(j);  // of the first lane
      return lane >= pack<C>(static_cast<C>(std::max(d - ahead, first))) &&
             lane <= pack<C>(static_cast<C>(std::min(d + back, last)));
    }
    GRADUS_INLINE pack<C> score(index_t j, C* at) const {
      pack<C> s(B::lowest);
      if (mask == nullptr || mask[j]) {
        pack<C> x = B::scaled(at, scale);
        if (cap != 0) x = pack<C>(cap) * tanh(x * pack<C>(1 / cap));
        if (bias != nullptr) x = x + pack<C>::load(bias + j * B::query_block);
        s = select(sees(j), x, s);
      }
      s.store(at);
      return s;
    }
    // A score of minus infinity, from a bias, masks too.
    GRADUS_INLINE pack<C> weight(index_t, const C* at, pack<C> shift) const {
      const pack<C> s = pack<C>::load(at);
      return select(s <= pack<C>(B::lowest), pack<C>(0), B::weight_of(s - shift));
    }
    GRADUS_INLINE pack<C> weight_again(index_t j, C* at, pack<C> shift) const {
      score(j, at);
      return weight(j, at, shift);
    }
    GRADUS_INLINE pack<C> kept(index_t j, pack<C> x) const {
      if (halves == nullptr) return x;
      return select(at_least<C>(halves + j * draws, threshold), x * pack<C>(factor), pack<C>(0));
    }
    GRADUS_INLINE pack<C> uncapped(const C* at, pack<C> gradient) const {
      if (cap == 0) return gradient;
      const pack<C> s = pack<C>::load(at), t = s * pack<C>(1 / cap);
      return select(s <= pack<C>(B::lowest), pack<C>(0), gradient * (pack<C>(1) - t * t));
    }
  };
  template <class F>
  GRADUS_INLINE void scores(index_t q0, index_t i, index_t j0, index_t count, const F& f) const {
    const auto width = static_cast<std::ptrdiff_t>(lanes<C>) - 1, length = static_cast<std::ptrdiff_t>(count) - 1;
    const std::ptrdiff_t distance = static_cast<std::ptrdiff_t>(j0) - is_.position(q0 + i);
    const auto query = static_cast<std::ptrdiff_t>(q0 + i);
    const std::ptrdiff_t first = static_cast<std::ptrdiff_t>(document_.begin) - query;
    const std::ptrdiff_t last = static_cast<std::ptrdiff_t>(document_.end) - query - 1;
    const bool all =
        distance + length <= is_.reach_ahead() && width - distance <= is_.reach_back() && first <= 0 && width <= last;
    const bool drops = is_.threshold > 0;
    if (all && mask_ == nullptr && bias_ == nullptr && !drops && is_.cap == 0) f(scaled_products{is_.scale});
    else
      f(ruled_scores{is_.scale, distance, is_.reach_back(), is_.reach_ahead(), first, last, mask_,
                     bias_ == nullptr ? nullptr : memory_.bias + i, drops ? memory_.halves + i : nullptr, is_.threshold,
                     is_.kept, is_.cap});
  }
  // Adds gradients of scores, [keys, queries] from query i0 on, to the gradient of this head's bias.
  void add_bias_gradient(C* to, const C* dscores, index_t q0, index_t i0, index_t queries, index_t j0,
                         index_t count) const {
    for (index_t i = i0; i < queries; ++i)
      for (index_t j = 0; j < count; ++j) to[(q0 + i) * is_.keys + j0 + j] += dscores[j * B::query_block + i];
  }

 private:
  const attention_rules<C>& is_;
  index_t b_, pair_;
  buffers& memory_;
  const C* bias_ = nullptr;
  const bool* mask_ = nullptr;
  typename attention_rules<C>::span document_{};  ///< of the block's keys
};

}  // namespace gradus::cpu_kit::inline GRADUS_BUILD
