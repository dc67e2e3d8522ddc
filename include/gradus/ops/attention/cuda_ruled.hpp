#pragma once
// Attention with options on a GPU: launches on CUDA cores, and the gradient of the bias.

#include <cstddef>

#include "../../gpu/launch.hpp"
#include "../../gpu/workspace.hpp"
#include "cuda_flash.hpp"
#include "cuda_rules.hpp"
#include "cuda_tensor_backward.hpp"

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
  for (int r = 0; r < F::rows; ++r)
#pragma unroll
    for (int j = 0; j < F::columns; ++j) sum[r][j] = 0;
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
    F::load_kv_tiles(ks, from.k, vs, from.v, is, heads, pair, j0, keys);
    typename F::scores s, d;
    F::multiply_rows(s, qs, ks);
    F::multiply_rows(d, dys, vs);
#pragma unroll
    for (int r = 0; r < F::rows; ++r) {
      const index_t query = q0 + F::ty() * F::rows + r;
      if (query >= queries) continue;
      const C lse = from.lse[pair * queries + query], of_row = delta[pair * queries + query];
#pragma unroll
      for (int j = 0; j < F::columns; ++j) {
        const index_t key = j0 + F::tx() + 8 * j;
        if (is.sees(query, key, keys))
          sum[r][j] += math::exp(is.score(s[r][j], query, key) - lse) * (is.kept(d[r][j], query, key) - of_row);
      }
    }
  }
  C* const to = dbias + given.rules.bias_head(own_b, own_h) * queries * keys;
#pragma unroll
  for (int r = 0; r < F::rows; ++r)
#pragma unroll
    for (int j = 0; j < F::columns; ++j) {
      const index_t query = q0 + F::ty() * F::rows + r, key = j0 + F::tx() + 8 * j;
      if (query >= queries || key >= keys) continue;
      C& at = to[query * keys + key];
      at = accumulate ? at + sum[r][j] : sum[r][j];
    }
}

/// Launches on CUDA cores.
template <class C, class T, index_t Depth>
struct ruled_attention_launches {
  using flash = flash_attention<C, T, Depth, ruled_launch<C>>;
  attention_sizes of;
  ruled_launch<C> rules;

  void forward(context<cuda>& ctx, attention_operand<T> out, C* lse, attention_operand<const T> q,
               attention_operand<const T> k, attention_operand<const T> v) const {
    with_flash_tiles<flash_forward, flash>(ctx.stream(), [&]<class F>(F) {
      launch_with_shared(ctx, &attention_forward_kernel<F, C, T>,
                         static_cast<unsigned>(pairs() * F::row_blocks_of(of.queries)), F::threads, F::forward_bytes,
                         pairs(), of.heads, out, lse, q, k, v, of.queries, of.keys, rules);
    });
  }
  void backward(context<cuda>& ctx, const attention_results<C, T>& to, const attention_inputs<C, T>& from) const {
    const C* const delta = write_delta(ctx, scratch<C>(ctx, pairs() * of.queries), from);
    const auto run = [&](auto kernel, index_t blocks, std::size_t bytes, auto... gradients) {
      launch_with_shared(ctx, kernel, static_cast<unsigned>(blocks), flash::threads, bytes, pairs(), of.heads,
                         gradients..., from.dy, from.q, from.k, from.v, from.lse, delta, of.queries, of.keys, rules);
    };
    with_flash_tiles<flash_backward, flash>(ctx.stream(), [&]<class F>(F) {
      if (to.q.data != nullptr)
        run(&attention_dq_kernel<F, C, T>, pairs() * F::row_blocks_of(of.queries), F::dq_bytes, to.q);
      if (to.k.data != nullptr || to.v.data != nullptr)
        run(&attention_dkv_kernel<F, C, T>, of.batch * of.kv_heads * F::row_blocks_of(of.keys), F::dkv_bytes, to.k,
            to.v);
    });
    bias_gradient(ctx, to, from, delta);
  }
  C* write_delta(context<cuda>& ctx, C* delta, const attention_inputs<C, T>& from) const {
    launch(ctx, &attention_delta_kernel<C, T, Depth>, blocks_for(pairs() * of.queries * delta_rows<C, T, Depth>::lanes),
           block_threads, delta, pairs(), of.heads, of.queries, from.dy, from.y);
    return delta;
  }
  void bias_gradient(context<cuda>& ctx, const attention_results<C, T>& to, const attention_inputs<C, T>& from,
                     const C* delta) const {
    if (to.bias == nullptr) return;
    const auto& is = rules.rules;
    const index_t bias_heads = (is.bias_per_batch ? of.batch : 1) * (is.bias_per_head ? of.heads : 1);
    with_flash_tiles<flash_backward, flash>(ctx.stream(), [&]<class F>(F) {
      const index_t tiles = F::row_blocks_of(of.queries) * ((of.keys + F::block_n - 1) / F::block_n);
      launch_with_shared(ctx, &attention_bias_kernel<F, C, T>, static_cast<unsigned>(bias_heads * tiles), F::threads,
                         F::dq_bytes, to.bias, to.accumulate_bias, of.batch, of.heads, from, delta, of.queries, of.keys,
                         rules);
    });
  }

 private:
  index_t pairs() const { return of.batch * of.heads; }
};

/// Launches on tensor cores; the gradient of a bias is computed on CUDA cores.
/// @tparam Scores ruled_scores
template <class T, index_t Depth, class Scores>
struct ruled_tensor_launches {
  using flash = tensor_attention<T, Depth, Scores>;
  ruled_attention_launches<float, T, Depth> on_cuda_cores;

  void forward(context<cuda>& ctx, attention_operand<T> out, float* lse, attention_operand<const T> q,
               attention_operand<const T> k, attention_operand<const T> v) const {
    using tiles = typename flash::forward;
    launch_with_shared(ctx, &tensor_attention_kernel<tiles, T>,
                       static_cast<unsigned>(pairs() * tiles::row_blocks_of(queries())), tiles::threads,
                       tiles::forward_bytes, pairs(), heads(), out, lse, q, k, v, queries(), keys(), scores());
  }
  void backward(context<cuda>& ctx, const attention_results<float, T>& to,
                const attention_inputs<float, T>& from) const {
    float* const delta = scratch<float>(ctx, static_cast<index_t>(pairs()) * on_cuda_cores.of.queries);
    if (to.q.data == nullptr) on_cuda_cores.write_delta(ctx, delta, from);
    const attention_gradients<T> g{pairs(), heads(), queries(), keys(), to.q,   to.k,     to.v,
                                   from.dy, from.q,  from.k,    from.v, from.y, from.lse, delta};
    const auto run = [&](auto kernel, int blocks, std::size_t bytes) {
      launch_with_shared(ctx, kernel, static_cast<unsigned>(blocks), flash::threads, bytes, g, scores());
    };
    if (to.q.data != nullptr)
      run(&tensor_attention_dq_kernel<flash, T>, pairs() * flash::row_blocks_of(queries()), flash::dq_bytes);
    if (to.k.data != nullptr || to.v.data != nullptr)
      run(&tensor_attention_dkv_kernel<flash, T>, kv_pairs() * flash::row_blocks_of(keys()), flash::dkv_bytes);
    on_cuda_cores.bias_gradient(ctx, to, from, delta);
  }

 private:
  int queries() const { return static_cast<int>(on_cuda_cores.of.queries); }
  int keys() const { return static_cast<int>(on_cuda_cores.of.keys); }
  int heads() const { return static_cast<int>(on_cuda_cores.of.heads); }
  int pairs() const { return static_cast<int>(on_cuda_cores.of.batch * on_cuda_cores.of.heads); }
  int kv_pairs() const { return static_cast<int>(on_cuda_cores.of.batch * on_cuda_cores.of.kv_heads); }
  Scores scores() const { return Scores{on_cuda_cores.rules}; }
};

}  // namespace gradus::cuda_kit
