#pragma once
// The backward kernels of attention on tensor cores: dq by tiles of queries and dk, dv by tiles of keys (seven products
// a tile), or all three by whole heads (five).

#include <bit>
#include <cstddef>
#include <cstdint>

#include "cuda_tensor.hpp"

namespace gradus::cuda_kit {

/// What the backward kernels take: `pairs` heads of queries, `heads` of each sequence. dq, or dk and dv, may be null.
/// delta [pairs, queries] is dy . y of each row: the kernels that compute dq write it, and tiles of keys read it.
template <class T>
struct attention_gradients {
  int pairs, heads, queries, keys;
  attention_operand<T> dq, dk, dv;
  attention_operand<const T> dy, q, k, v, y;
  const float* lse;
  float* delta;
};

/// dy . y of a row that four adjacent lanes share; 0 if there is no such row. Sums in the order of
/// attention_delta_kernel.
template <class F, class T>
__device__ inline float row_delta(const attention_gradients<T>& g, int pair, int row) {
  constexpr int runs = F::depth / 8, each = std::bit_ceil(static_cast<unsigned>(runs)) / 4;
  float sums[each > 0 ? each : 1]{};
  if (row < g.queries) {
    const T* const dy = F::head(g.dy, g.heads, pair) + static_cast<index_t>(row) * g.dy.time;
    const T* const y = F::head(g.y, g.heads, pair) + static_cast<index_t>(row) * g.y.time;
#pragma unroll
    for (int run = F::lane() % 4, at = 0; run < runs; run += 4, ++at) {
      const auto a = load<8, true>(dy + run * 8, 8), b = load<8, true>(y + run * 8, 8);
#pragma unroll
      for (int i = 0; i < 8; ++i) sums[at] += static_cast<float>(a.at[i]) * static_cast<float>(b.at[i]);
    }
  }
#pragma unroll
  for (int apart = each / 2; apart > 0; apart /= 2)
#pragma unroll
    for (int i = 0; i < apart; ++i) sums[i] += sums[i + apart];
  float sum = sums[0];
  sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 2);
  return sum + __shfl_xor_sync(0xFFFFFFFFu, sum, 1);
}

/// dq of a tile of queries: streams the keys.
template <class F, class T>
__global__ void __launch_bounds__(F::threads, F::blocks)
    tensor_attention_dq_kernel(attention_gradients<T> g, typename F::rules is) {
  using rules = typename F::rules;
  extern __shared__ __align__(16) unsigned char memory[];
  using tile = typename F::tile;
  const tile qs{shared_address(memory)}, dys = qs.from_row(F::block_m), ks = dys.from_row(F::block_m),
                                         vs = ks.from_row(2 * F::block_n);
  const int pair = static_cast<int>(blockIdx.x) % g.pairs;
  const int q0 = (F::row_blocks_of(g.queries) - 1 - static_cast<int>(blockIdx.x) / g.pairs) * F::block_m;
  const int row = F::warp_row();
  typename F::own_copy(F::head(g.q, g.heads, pair), g.q.time, q0).start(qs, g.queries - q0);
  typename F::own_copy(F::head(g.dy, g.heads, pair), g.dy.time, q0).start(dys, g.queries - q0);
  is.enter(g.heads, pair);
  const tile_span span = is.template key_tiles<F>(q0, g.queries, g.keys);
  const auto seen =
      rows_see<F>(memory + F::backward_tiles, [=, keys = g.keys](int r) { return is.keys_of(q0 + r, keys); });
  typename F::streamed_copy copy_k(F::head_of_keys(g.k, is, g.heads, pair), g.k.time, span.begin * F::block_n),
      copy_v(F::head_of_keys(g.v, is, g.heads, pair), g.v.time, span.begin * F::block_n);
  tile_stream stream(span.begin, span.end, [&](int j, int stage) {
    copy_k.start(ks.from_row(stage * F::block_n), g.keys - j * F::block_n);
    copy_v.start(vs.from_row(stage * F::block_n), g.keys - j * F::block_n);
  });
  const typename F::template fragments<true> own_q(qs, row);
  const typename F::template fragments<!rules::drops> own_dy(dys, row);
  float row_lse[2], delta[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int at = q0 + row + F::row_of(0, 2 * h);
    const index_t of_row = static_cast<index_t>(pair) * g.queries + at;
    row_lse[h] = at < g.queries ? g.lse[of_row] * log2_e : 0.0f;
    delta[h] = row_delta<F>(g, pair, at);
    if (at < g.queries && F::lane() % 4 == 0) g.delta[of_row] = delta[h];
  }
  typename F::sums sum{};
  const auto attend = [&](auto mask) {
    return [&](int j, int stage) {
      const int j0 = j * F::block_n;
      if (decltype(mask)::value && !seen.warp_meets(j0, F::block_n)) return;
      const tile kj = ks.from_row(stage * F::block_n), vj = vs.from_row(stage * F::block_n);
      const decltype(seen(0)) seen_here[2] = {seen(row + F::row_of(0, 0)).from(j0),
                                              seen(row + F::row_of(0, 2)).from(j0)};
      [[maybe_unused]] kept_rows<F::score_tiles> kept;
      if constexpr (rules::drops) kept = is.template kept_rows_of<F::score_tiles>(q0 + row, j0);
#pragma unroll 2
      for (int key = 0; key < F::block_n; key += 16) {
        typename F::gradients s, d;
        multiply_rows(s, own_q, kj.from_row(key));
        multiply_rows(d, own_dy, vj.from_row(key));
#pragma unroll
        for (int n = 0; n < 2; ++n)
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            float &x = s[0][n].r[i], &of_weight = d[0][n].r[i];
            if constexpr (rules::scored) x = is.score(x, q0 + row + F::row_of(0, i), j0 + key + F::column_of(n, i));
            if constexpr (rules::drops) of_weight = fmaf(kept.from(key / 8)(of_weight, n, i), is.kept, -delta[i / 2]);
            else of_weight -= delta[i / 2];
            x = coarse_exp2(fmaf(x, is.scale_log2, -row_lse[i / 2])) * of_weight;
            if (decltype(mask)::value && !seen_here[i / 2].has(key + F::column_of(n, i))) x = 0;
          }
        add_product(sum, s, kj.from_row(key));
      }
    };
  };
  run_over<rules>(stream, span, attend);
  qs.store_fragment(row, sum[0], is.scale, is.scale);
  qs.template store_to_global<F::warp_rows, F::depth>(row, F::head(g.dq, g.heads, pair), g.dq.time, q0 + row, g.queries,
                                                      g.dq.accumulate);
}

/// No dq beside dk and dv.
template <class F>
struct no_dq {
  __device__ void begin(int, int) {}
  __device__ void keep(int, const typename F::gradients&) const {}
  __device__ void end(typename F::tile) {}
};

/// The part of dq that a tile of keys adds, if a block takes the keys of a head in order: sums are kept in global
/// memory (the second-level cache) between two tiles of keys, in the order in which threads hold them. The products are
/// added as tensor_attention_dq_kernel adds them: dq has the same bits.
template <class F, class T>
class head_dq {
  static constexpr int strips = F::block_n / 16;                         // of 16 queries
  static constexpr int columns = F::width * strips / (F::threads / 32);  // of a warp
  static constexpr int tiles = columns / 8;
  static_assert(F::threads % (32 * strips) == 0 && columns % 16 == 0);
  using gradient_tile = shared_tile<T, F::block_n>;

 public:
  static constexpr std::size_t bytes = gradient_tile::bytes(F::block_m);
  /// Sums of a head.
  static constexpr index_t sums_of(index_t queries) {
    return (queries + F::block_n - 1) / F::block_n * (F::block_n * F::width);
  }

  __device__ head_dq(const attention_gradients<T>& g, int pair, float* sums, std::uint32_t shared)
      : g_(g), pair_(pair), sums_(reinterpret_cast<float4*>(sums)), gradients_{shared} {}

  /// Reads the sums of the queries i0 .. i0 + block_n - 1, unless this is the first tile of keys.
  __device__ void begin(int i0, int k0) {
    i0_ = i0, k0_ = k0;
#pragma unroll
    for (int n = 0; n < tiles; ++n) {
      const float4 x = k0 == 0 ? float4{0, 0, 0, 0} : *sums_of_tile(n);
      sum_[n] = {{x.x, x.y, x.z, x.w}};
    }
  }
  /// Keeps the gradients of scores of this warp's keys and 16 queries.
  __device__ void keep(int query, const typename F::gradients& d) const {
    gradients_.store_fragment(F::warp_row(), d[0], 1.0f, 1.0f, query / 8);
  }
  /// Adds the products with the keys that these queries see, and writes the sums, or dq behind the last key.
  __device__ void end(typename F::tile keys) {
    __syncthreads();
    const int left = F::rules::causal ? ::min(g_.keys, i0_ + F::block_n) - k0_ : g_.keys - k0_;
#pragma unroll 2
    for (int key = 0; key < ::min(F::block_m, left); key += 16) {
      const fragment_a a = gradients_.load_fragment_a_transposed(key, row());
#pragma unroll
      for (int n = 0; n < tiles; n += 2) {
        const fragment_b b = keys.load_fragment_b_transposed(key, column() + n * 8);
        mma<T>(sum_[n], a, b.r[0], b.r[1]);
        mma<T>(sum_[n + 1], a, b.r[2], b.r[3]);
      }
    }
    if (left > F::block_m) {
#pragma unroll
      for (int n = 0; n < tiles; ++n) {
        const auto& x = sum_[n].r;
        *sums_of_tile(n) = {x[0], x[1], x[2], x[3]};
      }
    } else {
      write();
    }
  }

 private:
  __device__ static int warp() { return static_cast<int>(threadIdx.x) / 32; }
  __device__ static int row() { return warp() % strips * 16; }
  __device__ static int column() { return warp() / strips * columns; }
  __device__ float4* sums_of_tile(int n) const {
    return sums_ + (i0_ / F::block_n * tiles + n) * F::threads + static_cast<int>(threadIdx.x);
  }
  __device__ void write() const {
    T* const to = F::head(g_.dq, g_.heads, pair_);
#pragma unroll
    for (int n = 0; n < tiles; ++n)
#pragma unroll
      for (int i = 0; i < 4; i += 2) {
        const int query = i0_ + row() + F::row_of(0, i), at = column() + F::column_of(n, i);
        if (query >= g_.queries || at >= F::depth) continue;
        put<2, true>(to + query * g_.dq.time + at, g_.dq.accumulate, 2,
                     [&](int k) { return static_cast<float>(convert_element<T>(sum_[n].r[i + k] * F::rules::scale)); });
      }
  }

  const attention_gradients<T>& g_;
  int pair_, i0_ = 0, k0_ = 0;
  float4* sums_;
  gradient_tile gradients_;
  accumulator sum_[tiles];
};

/// dk and dv of the keys k0 .. k0 + block_m - 1 of a head: streams the queries of the heads that use it, and adds to
/// `dq`. Queries and keys behind the last are zeros, which add nothing to rows of dk and dv that are stored.
template <class F, int Unrolled, class T, class Dq>
__device__ inline void add_key_tile(const attention_gradients<T>& g, typename F::rules is, unsigned char* memory,
                                    int kv_pair, int k0, Dq& dq) {
  using rules = typename F::rules;
  using tile = typename F::tile;
  const tile ks{shared_address(memory)}, vs = ks.from_row(F::block_m), qs = vs.from_row(F::block_m),
                                         dys = qs.from_row(2 * F::block_n);
  auto* const lses = reinterpret_cast<float*>(memory + F::backward_tiles + F::seen_bytes);
  float* const deltas = lses + 2 * F::block_n;
  const int row = F::warp_row(), kv_heads = g.heads / is.group;
  typename F::own_copy(F::head(g.k, kv_heads, kv_pair), g.k.time, k0).start(ks, g.keys - k0);
  typename F::own_copy(F::head(g.v, kv_heads, kv_pair), g.v.time, k0).start(vs, g.keys - k0);
  is.enter(g.heads, kv_pair * is.group);
  const tile_span span = is.template query_tiles<F>(k0, g.queries, g.keys);
  const auto seen =
      rows_see<F>(memory + F::backward_tiles, [=, keys = g.keys](int r) { return is.queries_of(k0 + r, keys); });
  // Each is 16 registers for heads of 64.
  typename F::template fragments<F::narrow && rules::plain> own_k;
  typename F::template fragments<F::narrow && rules::causal> own_v;
  typename F::sums sum_k{}, sum_v{};
  const auto add_chunk = [&](auto mask, int query, int i0, tile q, tile dy, const float* row_lse,
                             const float* row_delta) {
    typename F::gradients s, d;
    multiply_rows(s, own_k, q.from_row(query));
    multiply_rows(d, own_v, dy.from_row(query));
    const decltype(seen(0)) seen_here[2] = {seen(row + F::row_of(0, 0)).from(i0 + query),
                                            seen(row + F::row_of(0, 2)).from(i0 + query)};
    [[maybe_unused]] kept_columns kept;
    if constexpr (rules::drops) kept = is.kept_columns_of(i0 + query, k0 + row);
#pragma unroll
    for (int n = 0; n < 2; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int at = query + F::column_of(n, i);
        float &x = s[0][n].r[i], &of_weight = d[0][n].r[i];
        if constexpr (rules::scored) x = is.score(x, i0 + at, k0 + row + F::row_of(0, i));
        float weight = coarse_exp2(fmaf(x, is.scale_log2, -(row_lse[at] * log2_e)));
        if (decltype(mask)::value && !seen_here[i / 2].has(F::column_of(n, i))) weight = 0;
        if constexpr (rules::drops) {
          x = kept(weight, n, i);
          of_weight = weight * fmaf(kept(of_weight, n, i), is.kept, -row_delta[at]);
        } else {
          x = weight;
          of_weight = weight * (of_weight - row_delta[at]);
        }
      }
    dq.keep(query, d);
    add_product(sum_v, s, dy.from_row(query));
    add_product(sum_k, d, q.from_row(query));
  };
  const auto attend = [&](auto mask) {
    return [&, mask](int j, int stage) {
      const int i0 = j * F::block_n, at = stage * F::block_n;
      dq.begin(i0, k0);
      if (!decltype(mask)::value || seen.warp_meets(i0, F::block_n)) {
#pragma unroll Unrolled
        for (int query = 0; query < F::block_n; query += 16)
          add_chunk(mask, query, i0, qs.from_row(at), dys.from_row(at), lses + at, deltas + at);
      }
      dq.end(ks);
    };
  };
  for (int member = 0; member < is.group; ++member) {
    const int pair = kv_pair * is.group + member;
    if (member > 0) is.enter(g.heads, pair);
    typename F::streamed_copy copy_q(F::head(g.q, g.heads, pair), g.q.time, span.begin * F::block_n),
        copy_dy(F::head(g.dy, g.heads, pair), g.dy.time, span.begin * F::block_n);
    const float* const lse_of_pair = g.lse + static_cast<index_t>(pair) * g.queries;
    const float* const delta_of_pair = g.delta + static_cast<index_t>(pair) * g.queries;
    tile_stream stream(span.begin, span.end, [&](int j, int stage) {
      const int i0 = j * F::block_n, at = static_cast<int>(threadIdx.x);
      copy_q.start(qs.from_row(stage * F::block_n), g.queries - i0);
      copy_dy.start(dys.from_row(stage * F::block_n), g.queries - i0);
      if (at < F::block_n) {
        cp_async_4_bytes(shared_address(lses + stage * F::block_n + at), lse_of_pair + i0 + at, i0 + at < g.queries);
        cp_async_4_bytes(shared_address(deltas + stage * F::block_n + at), delta_of_pair + i0 + at,
                         i0 + at < g.queries);
      }
    });
    if (member == 0) own_k.take(ks, row), own_v.take(vs, row);
    run_over<rules>(stream, span, attend);
  }
  if (g.dk.data != nullptr) {
    ks.store_fragment(row, sum_k[0], is.scale, is.scale);
    ks.template store_to_global<F::warp_rows, F::depth>(row, F::head(g.dk, kv_heads, kv_pair), g.dk.time, k0 + row,
                                                        g.keys, g.dk.accumulate);
  }
  if (g.dv.data != nullptr) {
    vs.store_fragment(row, sum_v[0], is.kept, is.kept);
    vs.template store_to_global<F::warp_rows, F::depth>(row, F::head(g.dv, kv_heads, kv_pair), g.dv.time, k0 + row,
                                                        g.keys, g.dv.accumulate);
  }
}

/// dk and dv, a tile of keys a block.
template <class F, class T>
__global__ void __launch_bounds__(F::threads, F::blocks)
    tensor_attention_dkv_kernel(attention_gradients<T> g, typename F::rules is) {
  extern __shared__ __align__(16) unsigned char memory[];
  no_dq<F> none;
  const int kv_pairs = g.pairs / is.group;
  add_key_tile<F, 1>(g, is, memory, static_cast<int>(blockIdx.x) % kv_pairs,
                     static_cast<int>(blockIdx.x) / kv_pairs * F::block_m, none);
}

/// dq, dk and dv by plain_scores, a head a block in turn, with sums [gridDim.x, head_dq::sums_of(queries)].
template <class F, class T>
__global__ void __launch_bounds__(F::threads, F::blocks)
    tensor_attention_heads_kernel(attention_gradients<T> g, float* sums) {
  extern __shared__ __align__(16) unsigned char memory[];
  const std::uint32_t gradients = shared_address(memory + F::dkv_bytes);
  for (int pair = static_cast<int>(blockIdx.x); pair < g.pairs; pair += static_cast<int>(gridDim.x)) {
    head_dq<F, T> dq(g, pair, sums + blockIdx.x * head_dq<F, T>::sums_of(static_cast<index_t>(g.queries)), gradients);
    for (int row = static_cast<int>(threadIdx.x) / 4; row / F::block_n * F::block_n < g.queries;
         row += F::threads / 4) {
      const float delta = row_delta<F>(g, pair, row);
      if (row < g.queries && F::lane() % 4 == 0) g.delta[static_cast<index_t>(pair) * g.queries + row] = delta;
    }
    __syncthreads();
    for (int k0 = 0; k0 < g.keys; k0 += F::block_m) {
      add_key_tile<F, 2>(g, {}, memory, pair, k0, dq);
      __syncthreads();  // before the next tile overwrites what others still store
    }
  }
}

}  // namespace gradus::cuda_kit
