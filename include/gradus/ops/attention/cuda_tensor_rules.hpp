#pragma once
// The rules of attention on tensor cores, as types: which scores of a warp's accumulators count, what is added to them,
// and which weights dropout keeps. Without options they compile to nothing but the causal mask.

#include <array>
#include <climits>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "cuda_rules.hpp"

namespace gradus::cuda_kit {

inline constexpr float log2_e = 1.44269504088896341f;

/// What a row of scores sees: positions first .. last, counted from `begin` on after from(begin).
struct seen_between {
  int first, last;
  __device__ seen_between from(int begin) const { return {first - begin, last - begin}; }
  __device__ bool has(int at) const { return first <= at && at <= last; }
  __device__ bool meets(int count) const { return first < count && last >= 0; }
};
/// What a row of scores sees: positions up to `last`.
struct seen_up_to {
  int last;
  __device__ seen_up_to from(int begin) const { return {last - begin}; }
  __device__ bool has(int at) const { return at <= last; }
  __device__ bool meets(int) const { return last >= 0; }
};
/// What a row of scores sees: positions from `first` on.
struct seen_since {
  int first;
  __device__ seen_since from(int begin) const { return {first - begin}; }
  __device__ bool has(int at) const { return first <= at; }
  __device__ bool meets(int count) const { return first < count; }
};
/// The streamed tiles begin .. end - 1, of which whole .. whole_end - 1 need no mask.
struct tile_span {
  int begin, whole, whole_end, end;
};

/// No options: the scores above the diagonal are masked if attention is causal.
template <index_t Depth, bool Causal>
struct plain_scores {
  static constexpr bool plain = true, causal = Causal, scored = false, drops = false;
  static constexpr int group = 1;  ///< heads of queries for a head of keys
  static constexpr float scale = static_cast<float>(gradus::detail::inverse_square_root(Depth));
  static constexpr float scale_log2 = scale * log2_e;
  static constexpr float natural = scale;
  static constexpr float kept = 1;

  /// Before all else: the head of queries of the block.
  __device__ static void enter(int, int) {}
  __device__ static seen_up_to keys_of(int query, int keys) { return {(Causal ? ::min(query + 1, keys) : keys) - 1}; }
  /// Keys behind the last are behind each query, if attention is causal.
  __device__ static seen_since queries_of(int key, int keys) { return {Causal ? key : key >= keys ? INT_MAX : 0}; }
  /// The tiles of F::block_n keys that F::block_m queries from q0 on see.
  template <class F>
  __device__ static tile_span key_tiles(int q0, int, int keys) {
    return {0, 0, (Causal ? ::min(q0, keys) : keys) / F::block_n,
            ((Causal ? ::min(q0 + F::block_m, keys) : keys) + F::block_n - 1) / F::block_n};
  }
  /// The tiles of queries that see the keys from k0 on.
  template <class F>
  __device__ static tile_span query_tiles(int k0, int queries, int keys) {
    const int end = (queries + F::block_n - 1) / F::block_n, begin = Causal ? k0 / F::block_n : 0;
    const int diagonal_end = Causal ? ::min(end, begin + F::block_m / F::block_n) : 0;
    return {begin, k0 + F::block_m > keys ? end : diagonal_end, end, end};
  }
};

/// x if the highest bit of byte number `byte` of the word is set, or else 0.
__device__ inline float keep_if_sign(float x, std::uint32_t word, unsigned byte) {
  std::uint32_t all;
  asm("prmt.b32 %0, %1, 0, %2;"
      : "=r"(all)
      : "r"(word), "r"(0x8888u + 0x1111u * byte));  // the byte's highest bit, 32 times
  return __uint_as_float(__float_as_uint(x) & all);
}
/// Dropout of 16 queries [rows of accumulators] and 8 * Tiles keys: the bit of element i of accumulator n is number
/// i * Tiles + n.
template <int Tiles>
struct kept_rows {
  std::uint32_t bits;
  __device__ kept_rows from(int accumulator) const { return {bits >> accumulator}; }
  __device__ float operator()(float x, int n, int i) const {
    const int at = i * Tiles + n;
    return keep_if_sign(x, bits << (7 - at % 8), static_cast<unsigned>(at / 8));
  }
};
/// Dropout of 16 keys [rows of accumulators] and 16 queries.
struct kept_columns {
  std::uint32_t even, odd;
  __device__ float operator()(float x, int n, int i) const {
    return keep_if_sign(x, i % 2 == 0 ? even : odd, static_cast<unsigned>(i / 2 * 2 + n));
  }
};

/// The options. Each row of scores sees adjacent keys. Drops: dropout. Scored: a mask, a bias or a scale that is not
/// positive; those take dropout or not.
template <bool Drops, bool Scored>
struct ruled_scores : ruled_launch<float> {
  static constexpr bool plain = false, causal = false, scored = Scored, drops = Drops;
  float scale;                                              ///< of the products of queries and keys
  float scale_log2;                                         ///< makes scores exponents of 2
  float natural;                                            ///< makes scores exponents of e
  float kept;                                               ///< factor of the weights that dropout keeps
  std::array<std::array<std::uint32_t, 2>, 10> round_keys;  ///< of Philox
  std::uint32_t carries;                                    ///< 2^16 - threshold, in the upper half
  std::uint32_t octets;           ///< groups of eight queries, which share the words of a draw
  std::uint64_t first_octet = 0;  ///< number of the head's first draw of words

  explicit ruled_scores(const ruled_launch<float>& of)
      : ruled_launch<float>(of),
        scale(of.rules.scale),
        scale_log2(Scored ? 1.0f : of.rules.scale * log2_e),
        natural(Scored ? 1 / log2_e : of.rules.scale),
        kept(of.rules.kept),
        carries((0x10000u - of.rules.threshold) << 16),
        octets(static_cast<std::uint32_t>((of.rules.queries + 7) / 8)) {
    for (std::uint32_t round = 0; round < 10; ++round) round_keys[round] = philox_round_key(rules.key.key(), round);
  }

  __device__ void enter(int heads, int pair) {
    ruled_launch<float>::enter(heads, pair);
    if constexpr (Drops) first_octet = rules.draw_of(pair, 0) / 8;
  }
  __device__ seen_between keys_of(int query, int) const {
    return {static_cast<int>(rules.first_key(b, query)), static_cast<int>(rules.end_key(b, query)) - 1};
  }
  __device__ seen_between queries_of(int key, int) const {
    if (key >= static_cast<int>(rules.keys_of(b))) return {INT_MAX, -1};
    return {static_cast<int>(rules.first_query(b, key)), static_cast<int>(rules.end_query(b, key)) - 1};
  }
  template <class F>
  __device__ tile_span key_tiles(int q0, int queries, int keys) const {
    return tiles_of<F>(keys_of(q0, keys), keys_of(::min(q0 + F::block_m, queries) - 1, keys));
  }
  template <class F>
  __device__ tile_span query_tiles(int k0, int, int keys) const {
    const int there = static_cast<int>(rules.keys_of(b)), end = k0 + F::block_m;
    if (k0 >= there) return {0, 0, 0, 0};
    tile_span span = tiles_of<F>(queries_of(k0, keys), queries_of(::min(end, there) - 1, keys));
    if (end > there) span.whole = span.end;
    return span;
  }
  /// The exponent of 2 with the mask and the bias, for Scored.
  __device__ float score(float x, int query, int key) const {
    x *= scale * log2_e;
    const auto at = static_cast<index_t>(key);
    if (query >= static_cast<int>(rules.queries) || at >= rules.keys) return x;
    if (rules.mask != nullptr && !rules.mask[b * rules.keys + at]) return -INFINITY;
    return bias == nullptr ? x : fmaf(bias[static_cast<index_t>(query) * rules.keys + at], log2_e, x);
  }
  /// Dropout of a warp's 16 queries from `query` on and 8 * Tiles keys from `key` on; both are multiples of 8.
  template <int Tiles>
  __device__ kept_rows<Tiles> kept_rows_of(int query, int key) const {
    if (Scored && rules.threshold == 0) return {~0u};
    const int row = lane() / 4, column = lane() % 4 * 2;
    std::uint32_t bits = 0;
#pragma unroll
    for (int p = Tiles / 2 - 1; p >= 0; --p) {
      const int at = 8 * p + row, i = at / Tiles;
      append_kept(bits, query / 8 + i / 2, key + at % Tiles * 8 + column + i % 2);
    }
#pragma unroll
    for (int s = 4; s > 0; s /= 2) {  // transposes the bits of each byte and the eight lanes that share columns
      const std::uint32_t low = s == 4 ? 0x0F0F0F0Fu : s == 2 ? 0x33333333u : 0x55555555u;
      const std::uint32_t other = __shfl_xor_sync(0xFFFFFFFFu, bits, 4 * s);
      bits = (row & s) != 0 ? (bits & ~low) | (other >> s & low) : (bits & low) | (other << s & ~low);
    }
    return {bits};
  }
  /// Dropout of a warp's 16 keys from `key` on and 16 queries from `query` on, a multiple of 8.
  __device__ kept_columns kept_columns_of(int query, int key) const {
    if (Scored && rules.threshold == 0) return {~0u, ~0u};
    const int pair = lane() % 4;
    std::uint32_t bits = 0;
    append_kept(bits, query / 8 + pair % 2, key + lane() / 4 + pair / 2 * 8);
    bits <<= 8 * pair;
    bits |= __shfl_xor_sync(0xFFFFFFFFu, bits, 1);
    bits |= __shfl_xor_sync(0xFFFFFFFFu, bits, 2);
    return {bits << (7 - 2 * pair), bits << (6 - 2 * pair)};
  }

 private:
  __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }
  /// The tiles that rows see whose first sees `first` and whose last sees `last`; neither end falls from row to row.
  template <class F>
  __device__ static tile_span tiles_of(seen_between first, seen_between last) {
    constexpr int n = F::block_n;
    const int begin = first.first / n, end = ::max(begin, (last.last + n) / n);
    return {begin, ::min((last.first + n - 1) / n, end), (first.last + 1) / n, end};
  }
  /// Appends a bit for each of eight queries of a key, the first query's last: whether dropout keeps the weight.
  __device__ void append_kept(std::uint32_t& bits, int octet, int key) const {
    const std::uint64_t group =
        first_octet + std::uint64_t{static_cast<std::uint32_t>(key)} * octets + static_cast<std::uint32_t>(octet);
    const auto words = gradus::detail::philox_rounds(rules.key.counter(group),
                                                     [this](std::uint32_t round) { return round_keys[round]; });
#pragma unroll
    for (int k = 3; k >= 0; --k)
      // A half of a word is kept if adding 2^16 - threshold to it carries; addc shifts the carry into the bits.
      asm("{.reg .b32 sum;"
          "add.cc.u32 sum, %1, %3; addc.u32 %0, %0, %0;"
          "add.cc.u32 sum, %2, %3; addc.u32 %0, %0, %0;}"
          : "+r"(bits)
          : "r"(words[static_cast<std::size_t>(k)]), "r"(words[static_cast<std::size_t>(k)] << 16), "r"(carries));
  }
};

}  // namespace gradus::cuda_kit
