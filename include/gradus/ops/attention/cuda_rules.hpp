#pragma once
// The rules of attention in CUDA kernels, as types: without options they compile to nothing but the causal mask.

#include <cmath>
#include <cstdint>

#include "../../gpu/followed.hpp"
#include "options.hpp"

namespace gradus::cuda_kit {

/// No options: the scores above the diagonal are masked if attention is causal.
template <class C, index_t Depth, bool Causal>
struct plain_launch {
  static constexpr int group = 1;  ///< heads of queries for a head of keys

  /// Before all else, and for each head of queries: the head.
  __device__ static void enter(index_t, index_t) {}
  __device__ static void enter_sequence(index_t) {}
  static constexpr GRADUS_HD C scale() { return static_cast<C>(gradus::detail::inverse_square_root(Depth)); }
  __device__ static index_t first_key(index_t) { return 0; }
  __device__ static index_t end_key(index_t q0, index_t count, index_t keys) {
    return Causal && q0 + count < keys ? q0 + count : keys;
  }
  __device__ static index_t first_query(index_t k0) { return Causal ? k0 : 0; }
  __device__ static index_t end_query(index_t, index_t, index_t queries) { return queries; }
  /// Whether one of `count` keys may be seen; called by all threads of a block.
  __device__ static bool has_keys(index_t, index_t) { return true; }
  __device__ static bool sees(index_t query, index_t key, index_t keys) {
    return key < keys && (!Causal || key <= query);
  }
  __device__ static C score(C x, index_t, index_t) { return x; }
  __device__ static C kept(C x, index_t, index_t) { return x; }
  /// Of a row of scores, for its largest and its sum: finite if it has no key.
  __device__ static C shift(C largest) { return largest; }
  __device__ static C shift_sum(C sum) { return sum; }
  __device__ static C inverse(C sum) { return C(1) / sum; }
};

/// The options.
template <class C>
struct ruled_launch {
  attention_rules<C> rules;
  followed_key key;
  int group;                ///< heads of queries for a head of keys
  index_t b = 0, pair = 0;  ///< sequence and head of queries
  const C* bias = nullptr;  ///< of the head

  __device__ void enter(index_t heads, index_t of) {
    pair = of;
    b = pair / heads;
    rules.key = key.now();
    if (rules.bias != nullptr) bias = rules.bias + rules.bias_head(b, pair % heads) * rules.queries * rules.keys;
  }
  __device__ void enter_sequence(index_t sequence) { b = sequence; }
  __device__ C scale() const { return rules.scale; }
  __device__ index_t first_key(index_t q0) const { return rules.first_key(b, q0); }
  __device__ index_t end_key(index_t q0, index_t count, index_t) const { return rules.end_key(b, q0 + count - 1); }
  __device__ index_t first_query(index_t k0) const { return rules.first_query(b, k0); }
  __device__ index_t end_query(index_t k0, index_t count, index_t) const { return rules.end_query(b, k0 + count - 1); }
  __device__ bool has_keys(index_t k0, index_t count) const {
    const index_t key_of = k0 + threadIdx.x;
    if (k0 >= rules.keys_of(b)) return false;
    if (rules.mask == nullptr) return true;
    return __syncthreads_or(threadIdx.x < count && key_of < rules.keys && rules.mask[b * rules.keys + key_of]) != 0;
  }
  __device__ bool sees(index_t query, index_t key_of, index_t) const { return rules.sees(b, query, key_of); }
  __device__ C score(C x, index_t query, index_t key_of) const {
    return bias == nullptr || query >= rules.queries ? x : x + bias[query * rules.keys + key_of];
  }
  __device__ C kept(C x, index_t query, index_t key_of) const {
    if (rules.threshold == 0) return x;
    const std::uint64_t draw = rules.draw_of(pair, key_of) + query;
    return rules.key.half(draw) >= rules.threshold ? x * rules.kept : C(0);
  }
  __device__ static C shift(C largest) { return largest == -INFINITY ? C(0) : largest; }
  __device__ static C shift_sum(C sum) { return sum == C(0) ? C(1) : sum; }
  __device__ static C inverse(C sum) { return sum == C(0) ? C(0) : C(1) / sum; }
};

}  // namespace gradus::cuda_kit
