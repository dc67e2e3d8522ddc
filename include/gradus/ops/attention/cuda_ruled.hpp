#pragma once
// Attention with options on a GPU: launches on CUDA cores, and the gradient of the bias.

#include <cstddef>

#include "../../gpu/launch.hpp"
#include "../../gpu/workspace.hpp"
#include "cuda_flash.hpp"
#include "cuda_rules.hpp"

namespace gradus::cuda_kit {

/// The gradient of a tile [block_m queries, block_n keys] of one head of the bias: adds the gradients of all heads that
/// share it, in order, in registers. Heads of the bias vary over batch and heads as `is` says.
template <class F, class C, class T>
__global__ void __launch_bounds__(F::threads)
    attention_bias_kernel(C* dbias, bool accumulate, index_t batch, index_t heads, attention_inputs<C, T> from,
                          const C* delta, index_t queries, index_t keys, typename F::rules given) {
  extern __shared__ __align__(16) unsigned char memory[];
  C* const qs = reinterpret_cast<C*>(memory);
  C* const dys = qs + F::block_m * F::row_stride;
  C* const ks = dys + F::block_m * F::row_stride;
  C* const vs = ks + F::block_n * F::row_stride;
  const index_t key_blocks = (keys + F::block_n - 1) / F::block_n;
  const index_t j0 = blockIdx.x % key_blocks * F::block_n, rest = blockIdx.x / key_blocks;
  const index_t q0 = rest % F::row_blocks_of(queries) * F::block_m, number = rest / F::row_blocks_of(queries);
  const bool per_batch = given.rules.bias_per_batch, per_head = given.rules.bias_per_head;
  const index_t own_b = per_head ? number / heads : number, own_h = per_head ? number % heads : 0;
  typename F::scores sum;
#pragma unroll
  for (int r = 0; r < F::per_thread; ++r)
#pragma unroll
    for (int j = 0; j < F::per_thread; ++j) sum[r][j] = 0;
  const index_t pairs = (per_batch ? 1 : batch) * (per_head ? 1 : heads);
  for (index_t n = 0; n < pairs; ++n) {
    const index_t b = per_batch ? own_b : per_head ? n : n / heads, h = per_head ? own_h : n % heads;
    const index_t pair = b * heads + h;
    auto is = given;
    is.enter(heads, pair);
    if (j0 >= is.end_key(q0, F::block_m, keys) || j0 + F::block_n <= is.first_key(q0) || !is.has_keys(j0, F::block_n))
      continue;
    __syncthreads();
    F::template load_tile<F::block_m>(qs, F::head(from.q, heads, pair), from.q.time, q0, queries, is.scale());
    F::template load_tile<F::block_m>(dys, F::head(from.dy, heads, pair), from.dy.time, q0, queries, C(1));
    F::load_kv_tiles(ks, from.k, vs, from.v, heads, pair, j0, keys);
    typename F::scores s, d;
    F::multiply_rows(s, qs, ks);
    F::multiply_rows(d, dys, vs);
#pragma unroll
    for (int r = 0; r < F::per_thread; ++r) {
      const index_t query = q0 + F::ty() * F::per_thread + r;
      if (query >= queries) continue;
      const C lse = from.lse[pair * queries + query], of_row = delta[pair * queries + query];
#pragma unroll
      for (int j = 0; j < F::per_thread; ++j) {
        const index_t key = j0 + F::tx() + 8 * j;
        if (is.sees(query, key, keys))
          sum[r][j] += math::exp(is.score(s[r][j], query, key) - lse) * (is.kept(d[r][j], query, key) - of_row);
      }
    }
  }
  given.enter(heads, own_b * heads + own_h);
  C* const to = dbias + given.rules.bias_head(given.b, given.head) * queries * keys;
#pragma unroll
  for (int r = 0; r < F::per_thread; ++r)
#pragma unroll
    for (int j = 0; j < F::per_thread; ++j) {
      const index_t query = q0 + F::ty() * F::per_thread + r, key = j0 + F::tx() + 8 * j;
      if (query >= queries || key >= keys) continue;
      C& at = to[query * keys + key];
      at = accumulate ? at + sum[r][j] : sum[r][j];
    }
}

/// Launches for one head of queries of each head of keys; the operands have `heads` heads.
template <class C, class T, index_t Depth>
struct ruled_attention_launches {
  using flash = flash_attention<C, T, Depth, ruled_launch<C>>;
  index_t batch, heads, queries, keys;
  ruled_launch<C> rules;

  void forward(context<cuda>& ctx, attention_operand<T> out, C* lse, attention_operand<const T> q,
               attention_operand<const T> k, attention_operand<const T> v) const {
    launch_with_shared(ctx, &attention_forward_kernel<flash, C, T>,
                       static_cast<unsigned>(pairs() * flash::row_blocks_of(queries)), flash::threads,
                       flash::forward_bytes, pairs(), heads, out, lse, q, k, v, queries, keys, rules);
  }
  void backward(context<cuda>& ctx, const attention_results<C, T>& to, const attention_inputs<C, T>& from) const {
    const index_t rows = pairs() * queries;
    C* const delta = scratch<C>(ctx, rows);
    launch(ctx, &attention_delta_kernel<C, T, Depth>, blocks_for(rows * delta_rows<C, T, Depth>::lanes), block_threads,
           delta, pairs(), heads, queries, from.dy, from.y);
    const auto run = [&](auto kernel, index_t rows_there, std::size_t bytes, auto... gradients) {
      launch_with_shared(ctx, kernel, static_cast<unsigned>(pairs() * flash::row_blocks_of(rows_there)), flash::threads,
                         bytes, pairs(), heads, gradients..., from.dy, from.q, from.k, from.v, from.lse, delta, queries,
                         keys, rules);
    };
    if (to.q.data != nullptr) run(&attention_dq_kernel<flash, C, T>, queries, flash::dq_bytes, to.q);
    if (to.k.data != nullptr || to.v.data != nullptr)
      run(&attention_dkv_kernel<flash, C, T>, keys, flash::dkv_bytes, to.k, to.v);
    if (to.bias == nullptr) return;
    const auto& is = rules.rules;
    const index_t bias_heads = (is.bias_per_batch ? batch : 1) * (is.bias_per_head ? heads : 1);
    const index_t tiles = flash::row_blocks_of(queries) * ((keys + flash::block_n - 1) / flash::block_n);
    launch_with_shared(ctx, &attention_bias_kernel<flash, C, T>, static_cast<unsigned>(bias_heads * tiles),
                       flash::threads, flash::dq_bytes, to.bias, to.accumulate_bias, batch, heads, from, delta, queries,
                       keys, rules);
  }

 private:
  index_t pairs() const { return batch * heads; }
};

/// Heads member, member + group, .. of an operand.
template <class U>
attention_operand<U> every_head(attention_operand<U> x, index_t group, index_t member) {
  if (x.data != nullptr) x.data += member * x.head;
  x.head *= group;
  return x;
}

}  // namespace gradus::cuda_kit
