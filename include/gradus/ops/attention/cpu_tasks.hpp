#pragma once
// Attention on the CPU: divides heads, blocks of queries and ranges of keys among tasks.

#include <algorithm>
#include <cstring>

#include "../../core/config.hpp"
#include "../../cpu/parallel.hpp"
#include "cached.hpp"
#include "cpu_flash.hpp"
#include "cpu_rules.hpp"
#include "options.hpp"

namespace gradus::cpu_kit::inline GRADUS_BUILD {

/// Scratch of a task: of its blocks, and of the rules of a head.
template <class Blocks, class Head>
struct attention_scratch : Blocks, Head::buffers {};

/// attention_forward for heads with rules: Head{rules, b, h, scratch}.
template <class B, class Head, class Rules, class C, class T>
void attention_forward_by(context<cpu>& ctx, const attention_extents& extents, const Rules& rules,
                          attention_operand<T> out, C* lse, attention_operand<const T> q, attention_operand<const T> k,
                          attention_operand<const T> v) {
  using scratch = attention_scratch<attention_forward_scratch<B>, Head>;
  // More threads get smaller blocks of queries, of whole packs.
  const index_t pairs = extents.batch * extents.heads, threads = static_cast<index_t>(thread_count(ctx.stream()));
  constexpr index_t least = 16;
  index_t block = B::query_block;
  while (block > least && pairs * ((extents.queries + block - 1) / block) < 4 * threads) block /= 2;
  const index_t blocks = (extents.queries + block - 1) / block;
  parallel_tasks(ctx, pairs * blocks, sizeof(scratch), [=](index_t task, void* memory) {
    auto& mine = *static_cast<scratch*>(memory);
    const index_t pair = task / blocks, q0 = (blocks - 1 - task % blocks) * block;
    const index_t b = pair / extents.heads, h = pair % extents.heads, kv = h / extents.group;
    attention_forward_block<B>(mine, Head(rules, b, h, mine), extents.key_block, q0,
                               std::min(block, extents.queries - q0), attention_from(out, b, h, q0),
                               lse == nullptr ? nullptr : lse + pair * extents.queries + q0,
                               attention_from(q, b, h, q0), attention_from(k, b, kv), attention_from(v, b, kv));
  });
}

/// out = softmax(q k^T / sqrt(Depth)) v; also the log-sum-exp of each row of scores, unless `lse` is null.
template <index_t Depth, class C, class T>
void attention_forward(context<cpu>& ctx, attention_extents extents, attention_operand<T> out, C* lse,
                       attention_operand<const T> q, attention_operand<const T> k, attention_operand<const T> v) {
  using B = attention_blocks<C, T, Depth>;
  extents.key_block = B::key_block(extents.queries);
  attention_forward_by<B, plain_head<B>>(ctx, extents, extents, out, lse, q, k, v);
}
/// attention_forward with options: scale, causal, window, lengths, mask, bias and dropout are in `rules`.
template <index_t Depth, class C, class T>
void attention_forward_ruled(context<cpu>& ctx, attention_extents extents, const attention_rules<C>& rules,
                             attention_operand<T> out, C* lse, attention_operand<const T> q,
                             attention_operand<const T> k, attention_operand<const T> v) {
  using B = attention_blocks<C, T, Depth>;
  extents.key_block = B::key_block(extents.keys);
  attention_forward_by<B, ruled_head<B>>(ctx, extents, rules, out, lse, q, k, v);
}

/// attention_cached for heads with rules: Head{rules, b, h, scratch}.
template <class B, class Head, class C, class Rules, class T>
void attention_cached_by(context<cpu>& ctx, attention_extents extents, const Rules& rules, attention_operand<T> out,
                         const gradus::detail::cached_operands<T>& x) {
  using scratch = attention_scratch<attention_forward_scratch<B>, Head>;
  extents.key_block = B::key_block(extents.keys);
  const index_t kv_heads = extents.heads / extents.group;
  parallel_tasks(ctx, extents.batch * kv_heads, sizeof(scratch), [=](index_t task, void* memory) {
    auto& mine = *static_cast<scratch*>(memory);
    const index_t b = task / kv_heads, kv = task % kv_heads, first = x.position;
    const auto append = [=](attention_operand<const T> from, attention_operand<T> past) {
      from = attention_from(from, b, kv);
      past = attention_from(past, b, kv, first);
      for (index_t t = 0; t < x.count; ++t)
        std::memcpy(static_cast<void*>(past.data + t * past.time), from.data + t * from.time, B::depth * sizeof(T));
    };
    const auto whole = [=](attention_operand<T> past) {
      past = attention_from(past, b, kv);
      return attention_operand<const T>{past.data, past.batch, past.head, past.time, false};
    };
    append(x.k, x.past_keys);
    append(x.v, x.past_values);
    for (index_t h = kv * extents.group; h < (kv + 1) * extents.group; ++h) {
      for (index_t t = x.count; t < extents.queries; ++t) std::fill_n(attention_from(out, b, h, t).data, B::depth, T{});
      for (index_t i = 0; i < x.count; i += B::query_block)
        attention_forward_block<B, Head, C>(mine, Head(rules, b, h, mine), extents.key_block, first + i,
                                            std::min(B::query_block, x.count - i), attention_from(out, b, h, i),
                                            nullptr, attention_from(x.q, b, h, i), whole(x.past_keys),
                                            whole(x.past_values));
    }
  });
}
/// Appends the first `count` positions of k and v to the cache, from position `first` on, and attends from them; later
/// rows of `out` become zero. Has the bits of attention with as many queries as the cache has positions.
template <index_t Depth, class C, class T>
void attention_cached(context<cpu>& ctx, const attention_extents& extents, attention_operand<T> out,
                      const gradus::detail::cached_operands<T>& x) {
  using B = attention_blocks<C, T, Depth>;
  attention_cached_by<B, plain_head<B>, C>(ctx, extents, extents, out, x);
}
/// attention_cached with options: scale, window, lengths and mask are in `rules`.
template <index_t Depth, class C, class T>
void attention_cached_ruled(context<cpu>& ctx, const attention_extents& extents, const attention_rules<C>& rules,
                            attention_operand<T> out, const gradus::detail::cached_operands<T>& x) {
  using B = attention_blocks<C, T, Depth>;
  attention_cached_by<B, ruled_head<B>, C>(ctx, extents, rules, out, x);
}

/// Where gradients of keys are added up over blocks of queries and heads of a group: in the result `to`, or, if its
/// elements have fewer bits, in rows of C for the keys from `from` on, which store() rounds once.
template <class C, class T, index_t Depth>
struct key_sums {
  static constexpr bool rounds = !std::is_same_v<C, T>;
  static constexpr std::size_t bytes(index_t keys) { return rounds ? keys * Depth * sizeof(C) : 0; }
  using element = std::conditional_t<rounds, C, T>;

  attention_operand<T> to;  ///< of one head of keys
  [[maybe_unused]] C* rows;
  index_t from, end;

  attention_operand<element> operand() const {
    if constexpr (!rounds) return to;
    else return {to.data == nullptr ? nullptr : rows - from * Depth, 0, 0, Depth, false};
  }
  void clear() const {
    if (to.data == nullptr || (!rounds && to.accumulate)) return;
    const attention_operand<element> sums = operand();
    for (index_t t = from; t < end; ++t) std::fill_n(sums.data + t * sums.time, Depth, element{});
  }
  void store() const {
    if constexpr (rounds)
      if (to.data != nullptr)
        for (index_t t = from; t < end; ++t)
          for_packs<C>(Depth, [&](index_t i, auto n) {
            put(load<C>(rows + (t - from) * Depth + i, n), to.data + t * to.time + i, to.accumulate, n);
          });
  }
};

/// attention_backward for heads with rules: Head{rules, b, h, scratch}.
template <class B, class Head, class Rules, class C, class T>
void attention_backward_by(context<cpu>& ctx, const attention_extents& extents, const Rules& rules,
                           attention_operand<T> dq, attention_operand<T> dk, attention_operand<T> dv,
                           const attention_inputs<C, T>& inputs) {
  using scratch = attention_scratch<attention_backward_scratch<B>, Head>;
  using sums_of_keys = key_sums<C, T, B::depth>;
  constexpr index_t block = B::query_block;
  const index_t query_blocks = (extents.queries + block - 1) / block;
  const index_t key_ranges = (extents.keys + block - 1) / block;  // of whole key blocks
  const index_t group = extents.group, kv_heads = extents.heads / group, all_heads = extents.batch * kv_heads;
  const auto threads = static_cast<index_t>(thread_count(ctx.stream()));
  const bool shared =
      dq.data != nullptr && (dq.data == dk.data || dq.data == dv.data);  // tasks would write the same memory
  const bool separate =
      !shared && (all_heads + threads - 1) / threads * threads * 5 > all_heads * 7 && query_blocks > 1;
  const index_t parts = separate ? group * query_blocks + key_ranges : 1;
  const std::size_t bytes_of_sums = sums_of_keys::bytes(separate ? std::min(block, extents.keys) : extents.keys);
  parallel_tasks(ctx, all_heads * parts, sizeof(scratch) + 2 * bytes_of_sums, [=](index_t task, void* memory) {
    auto& mine = *static_cast<scratch*>(memory);
    const auto sums = [=](attention_operand<T> of, index_t which, index_t b, index_t kv, index_t from, index_t end) {
      std::byte* const rows = static_cast<std::byte*>(memory) + sizeof(scratch) + which * bytes_of_sums;
      return sums_of_keys{attention_from(of, b, kv), static_cast<C*>(static_cast<void*>(rows)), from, end};
    };
    const index_t part = task % parts, b = task / parts / kv_heads, kv = task / parts % kv_heads;
    const attention_operand<typename sums_of_keys::element> none;
    // Query blocks first .. last - 1 of one head; adds to the gradients of keys of the heads before.
    const auto blocks = [&](index_t in_group, index_t first, index_t last, index_t from, index_t to, auto to_q,
                            auto to_k, auto to_v) {
      const index_t h = kv * group + in_group;
      to_k.accumulate = to_k.accumulate || Head::starts_at_zero;
      to_v.accumulate = to_v.accumulate || Head::starts_at_zero;
      const auto of_head = [&](auto x) { return attention_from(x, b, h); };
      const auto of_keys = [&](auto x) { return attention_from(x, b, kv); };
      const attention_inputs<C, T> here{of_head(inputs.dy), of_head(inputs.q),
                                        of_keys(inputs.k),  of_keys(inputs.v),
                                        of_head(inputs.y),  inputs.lse + (b * extents.heads + h) * extents.queries};
      for (index_t i = first; i < last; ++i)
        attention_backward_block<B>(mine, Head(rules, b, h, mine), extents.key_block, i * block,
                                    std::min(block, extents.queries - i * block), from, to, of_head(to_q), to_k, to_v,
                                    static_cast<C*>(nullptr), here);
    };
    if (!separate || part < key_ranges) {
      if (separate && dk.data == nullptr && dv.data == nullptr) return;
      const index_t from = separate ? part * block : 0;
      const index_t to = separate ? std::min(extents.keys, from + block) : extents.keys;
      const sums_of_keys k = sums(dk, 0, b, kv, from, to), v = sums(dv, 1, b, kv, from, to);
      if (Head::starts_at_zero) k.clear(), v.clear();
      const Head any(rules, b, kv * group, mine);
      const index_t first = separate ? any.first_query(0, from) / block : 0;
      const index_t last = separate ? (any.end_query(0, extents.queries, to) + block - 1) / block : query_blocks;
      for (index_t g = 0; g < group; ++g)
        blocks(g, first, last, from, to, separate ? attention_operand<T>{} : dq, k.operand(), v.operand());
      k.store();
      v.store();
    } else {
      if (dq.data == nullptr) return;
      const index_t of_group = part - key_ranges, i = query_blocks - 1 - of_group % query_blocks;
      blocks(of_group / query_blocks, i, i + 1, 0, extents.keys, dq, none, none);
    }
  });
}

/// Writes each of dq, dk and dv unless its address is null. One task per head; or, if that leaves threads idle, tasks
/// per query block for dq, and per key range for dk and dv: 7 products per block instead of 5, summed in the same
/// order.
template <index_t Depth, class C, class T>
void attention_backward(context<cpu>& ctx, attention_extents extents, attention_operand<T> dq, attention_operand<T> dk,
                        attention_operand<T> dv, attention_operand<const T> dy, attention_operand<const T> q,
                        attention_operand<const T> k, attention_operand<const T> v, attention_operand<const T> y,
                        const C* lse) {
  using B = attention_blocks<C, T, Depth>;
  extents.key_block = B::key_block(extents.queries);
  attention_backward_by<B, plain_head<B>>(ctx, extents, extents, dq, dk, dv,
                                          attention_inputs<C, T>{dy, q, k, v, y, lse});
}

/// The gradient of the bias [1 or B, 1 or H, Tq, Tk]: a task takes a block of queries of one head of the bias, and adds
/// the gradients of all heads that share it, in order.
template <class B, class C, class T>
void attention_bias_gradient(context<cpu>& ctx, const attention_extents& extents, const attention_rules<C>& rules,
                             C* dbias, bool accumulate, const attention_inputs<C, T>& inputs) {
  using Head = ruled_head<B>;
  using scratch = attention_scratch<attention_backward_scratch<B>, Head>;
  const index_t blocks = (extents.queries + B::query_block - 1) / B::query_block;
  const index_t bias_heads = rules.bias_per_head ? extents.heads : 1;
  const index_t all = (rules.bias_per_batch ? extents.batch : 1) * bias_heads;
  parallel_tasks(ctx, all * blocks, sizeof(scratch), [=](index_t task, void* memory) {
    auto& mine = *static_cast<scratch*>(memory);
    const index_t bias_head = task / blocks, q0 = task % blocks * B::query_block;
    const index_t queries = std::min(B::query_block, extents.queries - q0);
    C* const to = dbias + bias_head * extents.queries * extents.keys;
    if (!accumulate) std::fill_n(to + q0 * extents.keys, queries * extents.keys, C(0));
    for (index_t b = 0; b < extents.batch; ++b)
      for (index_t h = 0; h < extents.heads; ++h) {
        if (rules.bias_head(b, h) != bias_head) continue;
        const index_t kv = h / extents.group;
        const attention_inputs<C, T> here{
            attention_from(inputs.dy, b, h), attention_from(inputs.q, b, h),
            attention_from(inputs.k, b, kv), attention_from(inputs.v, b, kv),
            attention_from(inputs.y, b, h),  inputs.lse + (b * extents.heads + h) * extents.queries};
        attention_backward_block<B>(mine, Head(rules, b, h, mine), extents.key_block, q0, queries, 0, extents.keys,
                                    attention_operand<T>{}, attention_operand<T>{}, attention_operand<T>{}, to, here);
      }
  });
}

/// attention_backward with options, and the gradient of the bias, unless that is null.
template <index_t Depth, class C, class T>
void attention_backward_ruled(context<cpu>& ctx, attention_extents extents, const attention_rules<C>& rules,
                              const attention_results<C, T>& to, const attention_inputs<C, T>& inputs) {
  using B = attention_blocks<C, T, Depth>;
  extents.key_block = B::key_block(extents.keys);
  if (to.q.data != nullptr || to.k.data != nullptr || to.v.data != nullptr)
    attention_backward_by<B, ruled_head<B>>(ctx, extents, rules, to.q, to.k, to.v, inputs);
  if (to.bias != nullptr) attention_bias_gradient<B>(ctx, extents, rules, to.bias, to.accumulate_bias, inputs);
}

}  // namespace gradus::cpu_kit::inline GRADUS_BUILD
