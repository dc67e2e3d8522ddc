#pragma once
// The options of attention, and the rules that kernels make of them: which scores count, and what is added to them.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "../../core/config.hpp"
#include "../../core/dtype.hpp"
#include "../../core/error.hpp"
#include "../../core/philox.hpp"
#include "../../tensor/optional_tensor.hpp"
#include "../dropout/dropout.hpp"

namespace gradus {

/// The layout of one operand of attention: strides between batches, heads and positions, in elements. The elements of
/// one head at one position are contiguous. `data` may be null for a result that is not needed.
template <class T>
struct attention_operand {
  T* data = nullptr;
  index_t batch = 0;
  index_t head = 0;
  index_t time = 0;
  bool accumulate = false;  ///< of a result: add to the memory instead of overwriting it
};

/// What the backward of attention reads: the output's gradient, the operands, the output, and the log-sum-exp of each
/// row of scores, [B, H, Tq].
template <class C, class T>
struct attention_inputs {
  attention_operand<const T> dy, q, k, v, y;
  const C* lse = nullptr;
};
/// What the backward of attention writes; results may be null. `bias` is dense and of the bias's shape.
template <class C, class T>
struct attention_results {
  attention_operand<T> q, k, v;
  C* bias = nullptr;
  bool accumulate_bias = false;
};

/// Extents of one attention: each of the `kv_heads` heads of keys and values serves heads / kv_heads heads of queries.
struct attention_sizes {
  index_t batch, heads, kv_heads, queries, keys;
  constexpr index_t group() const { return heads / kv_heads; }  ///< heads of queries for a head of keys
};

/// Options of attention(q, k, v, {...}) with Tq queries and Tk keys. The queries have the last Tq of max(Tq, Tk)
/// positions, key j has position j, so query i is at i + Tk - Tq. A query that attends to no key yields 0.
template <class D = cpu>
struct attention_options {
  bool causal = false;  ///< attend to keys at the query's position and before
  double scale = 0;     ///< factor of the products q k^T; 0: 1/sqrt(D)
  double dropout = 0;   ///< probability of setting a weight to 0, if an operand is traced; the others grow by 1/(1-p)
  optional_tensor<std::int32_t, D> key_lengths = {};  ///< [B]: attend to the first key_lengths[b] keys
  optional_tensor<bool, D> mask = {};                 ///< [B, Tk]: attend to keys with true
  index_t window = 0;  ///< attend to keys less than `window` positions away (before, if causal); 0: any
  double cap = 0;      ///< scores s become cap tanh(s / cap) (Gemma 2); 0: as they are. On the CPU, without a bias
  /// [B, T, 2], T = Tq = Tk: for each position, where its document begins and where it ends (exclusive). Attend to keys
  /// of the same document; from a position whose document is empty (ends where it begins) to none.
  optional_tensor<std::int32_t, D> documents = {};
};

namespace detail {

/// 1 / sqrt(n); std::sqrt is not constexpr.
constexpr double inverse_square_root(index_t n) {
  const double x = static_cast<double>(n);
  double r = x;
  for (int i = 0; i < 64; ++i) r = 0.5 * (r + x / r);
  return 1 / r;
}

[[noreturn]] inline void attention_rejects(const std::string& what) {
  throw error("attention(q, k, v, options): " + what);
}

/// Throws error unless the positions of a sequence, `times` pairs of begin and end, are documents one behind the other.
constexpr void check_documents(const std::int32_t* pairs, index_t sequence, index_t times) {
  const auto text = [](auto begin, const auto& end) { return "[" + std::to_string(begin) + ", " + end + "]"; };
  const auto reject = [&](index_t t, const std::string& wanted) {
    attention_rejects("documents" + text(sequence, std::to_string(t)) + " is " +
                      text(pairs[2 * t], std::to_string(pairs[2 * t + 1])) + "; it must be " + wanted);
  };
  for (index_t t = 0; t < times;) {
    const std::int32_t begin = pairs[2 * t], end = pairs[2 * t + 1];
    if (begin == end) {
      ++t;
      continue;
    }
    if (begin != static_cast<std::int32_t>(t) || end < begin || static_cast<index_t>(end) > times)
      reject(t, text(t, "end") + " with an end of at most T = " + std::to_string(times) + ", or empty");
    for (; t < static_cast<index_t>(end); ++t)
      if (pairs[2 * t] != begin || pairs[2 * t + 1] != end)
        reject(t, text(begin, std::to_string(end)) + " as at the position before");
  }
}

/// Throws error if an option does not fit. Elements of key_lengths and documents are checked where the host can read
/// them; other devices clamp them.
template <class D>
constexpr void check_attention_options(const attention_options<D>& o, index_t batch, index_t queries, index_t keys) {
  if (!(o.dropout >= 0 && o.dropout < 1))
    attention_rejects("dropout is " + std::to_string(o.dropout) + "; it must be at least 0 and less than 1");
  if (!(o.scale > -1e30 && o.scale < 1e30)) attention_rejects("scale must be finite");
  if (!(o.cap >= 0 && o.cap < 1e30)) attention_rejects("cap is " + std::to_string(o.cap) + "; it must be 0 or more");
  if (o.key_lengths && !o.key_lengths.has_extents(std::array{batch}))
    attention_rejects("key_lengths is " + o.key_lengths.extents_text() + "; it must be [B] = [" +
                      std::to_string(batch) + "]");
  if (o.mask && !o.mask.has_extents(std::array{batch, keys}))
    attention_rejects("mask is " + o.mask.extents_text() + "; it must be [B, Tk] = [" + std::to_string(batch) + ", " +
                      std::to_string(keys) + "]");
  if (o.documents && queries != keys)
    attention_rejects("documents are for as many queries as keys, not " + std::to_string(queries) + " and " +
                      std::to_string(keys));
  if (o.documents && !o.documents.has_extents(std::array{batch, keys, index_t{2}}))
    attention_rejects("documents is " + o.documents.extents_text() + "; it must be [B, T, 2] = [" +
                      std::to_string(batch) + ", " + std::to_string(keys) + ", 2]");
  if constexpr (D::host_addressable) {
    if (const std::int32_t* const pairs = o.documents.data())
      for (index_t b = 0; b < batch; ++b) check_documents(pairs + 2 * b * keys, b, keys);
    if (const std::int32_t* const lengths = o.key_lengths.data())
      for (index_t b = 0; b < batch; ++b)
        if (lengths[b] < 0 || static_cast<index_t>(lengths[b]) > keys)
          attention_rejects("key_lengths[" + std::to_string(b) + "] is " + std::to_string(lengths[b]) +
                            "; it must be 0 to Tk = " + std::to_string(keys));
  }
}

}  // namespace detail

/// Attention with no options but `causal`, which then has as many keys as queries.
template <bool Causal>
struct only_causal {};

/// The options as kernels take them.
/// @tparam C type of scores and sums
template <class C>
struct attention_rules {
  index_t heads = 0, queries = 0, keys = 0;
  bool causal = false;
  index_t window = 0;
  C scale = 0;
  C cap = 0;  ///< 0: none
  const std::int32_t* lengths = nullptr;
  const bool* mask = nullptr;
  const std::int32_t* documents = nullptr;
  const C* bias = nullptr;  ///< [1 or B, 1 or H, Tq, Tk]
  bool bias_per_batch = false, bias_per_head = false;
  random_key key = {};
  std::uint32_t threshold = 0;  ///< weights with random bits below it are dropped; 0: none
  C kept = 1;                   ///< factor of the others

  GRADUS_HD constexpr std::ptrdiff_t shift() const {
    return static_cast<std::ptrdiff_t>(keys) - static_cast<std::ptrdiff_t>(queries);
  }
  GRADUS_HD constexpr std::ptrdiff_t position(index_t query) const {
    return static_cast<std::ptrdiff_t>(query) + shift();
  }
  /// A query at position p sees keys p - reach_back() .. p + reach_ahead().
  GRADUS_HD constexpr std::ptrdiff_t reach_back() const { return window == 0 ? unlimited : reach(); }
  GRADUS_HD constexpr std::ptrdiff_t reach_ahead() const { return causal ? 0 : reach_back(); }
  GRADUS_HD constexpr index_t keys_of(index_t b) const { return lengths == nullptr ? keys : clamped(lengths[b], keys); }
  /// Positions of the document of position t, which see each other: none, at t, if it is empty. Where t grows, so do
  /// both ends of valid documents; others are clamped at t, and what they see is not specified.
  struct span {
    index_t begin, end;
  };
  GRADUS_HD constexpr span document(index_t b, index_t t) const {
    if (documents == nullptr) return {0, static_cast<index_t>(unlimited)};
    if (t >= keys) t = keys - 1;
    const std::int32_t* const of = documents + 2 * (b * keys + t);
    const span found{clamped(of[0], t), clamped(of[1], keys)};
    return of[0] < of[1] && t < found.end ? found : span{t, t};
  }
  /// Keys outside of first_key(b, q) .. end_key(b, q) - 1 are not seen by query q. Neither falls where q grows.
  GRADUS_HD constexpr index_t first_key(index_t b, index_t query) const {
    return std::max(clamped(position(query) - reach_back(), keys), document(b, query).begin);
  }
  GRADUS_HD constexpr index_t end_key(index_t b, index_t query) const {
    return std::min(clamped(position(query) + reach_ahead() + 1, keys_of(b)), document(b, query).end);
  }
  /// Queries outside of first_query(b, j) .. end_query(b, j) - 1 do not see key j.
  GRADUS_HD constexpr index_t first_query(index_t b, index_t j) const {
    return std::max(clamped(static_cast<std::ptrdiff_t>(j) - shift() - reach_ahead(), queries), document(b, j).begin);
  }
  GRADUS_HD constexpr index_t end_query(index_t b, index_t j) const {
    return std::min(clamped(static_cast<std::ptrdiff_t>(j) - shift() + reach_back() + 1, queries), document(b, j).end);
  }
  GRADUS_HD constexpr bool sees(index_t b, index_t query, index_t j) const {
    const std::ptrdiff_t ahead = static_cast<std::ptrdiff_t>(j) - position(query);
    return j < keys_of(b) && ahead <= reach_ahead() && -ahead <= reach_back() &&
           (mask == nullptr || mask[b * keys + j]) && (documents == nullptr || shares_document(b, query, j));
  }
  /// Heads of the bias, and the head of it for head h of sequence b.
  GRADUS_HD constexpr index_t bias_head(index_t b, index_t h) const {
    return (bias_per_batch ? b * (bias_per_head ? heads : 1) : 0) + (bias_per_head ? h : 0);
  }
  /// The number of the draw for a weight is draw_of(pair, j) plus its query. Adjacent queries share words.
  GRADUS_HD constexpr std::uint64_t draw_of(index_t pair, index_t j) const {
    return (std::uint64_t{pair} * keys + j) * ((queries + 7) / 8 * 8);
  }

 private:
  GRADUS_HD constexpr bool shares_document(index_t b, index_t query, index_t j) const {
    const span of = document(b, query);
    return of.begin <= j && j < of.end;
  }
  static constexpr std::ptrdiff_t unlimited = std::ptrdiff_t{1} << 40;
  GRADUS_HD constexpr std::ptrdiff_t reach() const { return static_cast<std::ptrdiff_t>(window) - 1; }
  GRADUS_HD static constexpr index_t clamped(std::ptrdiff_t x, index_t most) {
    return x < 0 ? 0 : static_cast<index_t>(x) < most ? static_cast<index_t>(x) : most;
  }
};

namespace detail {

template <class C, index_t Depth, bool Causal>
constexpr only_causal<Causal> rules_of(only_causal<Causal> options, const attention_sizes&, const random_key&) {
  return options;
}
/// The rules of `options`; dropout draws with `key`.
template <class C, index_t Depth, class D>
constexpr attention_rules<C> rules_of(const attention_options<D>& options, const attention_sizes& sizes,
                                      const random_key& key) {
  const op::dropout drop{options.dropout, key};
  return {.heads = sizes.heads,
          .queries = sizes.queries,
          .keys = sizes.keys,
          .causal = options.causal,
          .window = std::min(options.window, sizes.queries + sizes.keys),
          .scale = static_cast<C>(options.scale == 0 ? inverse_square_root(Depth) : options.scale),
          .cap = static_cast<C>(options.cap),
          .lengths = options.key_lengths.data(),
          .mask = options.mask.data(),
          .documents = options.documents.data(),
          .key = key,
          .threshold = options.dropout > 0 ? drop.threshold() : 0,
          .kept = options.dropout > 0 ? static_cast<C>(drop.scale()) : C(1)};
}

}  // namespace detail

}  // namespace gradus
