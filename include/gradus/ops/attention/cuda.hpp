#pragma once
// The CUDA kernels of attention: chooses cuDNN, tensor cores or CUDA cores, and launches.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "../../cuda/cudnn_attention.hpp"
#include "../../cuda/workspace.hpp"
#include "../elementwise/cuda.hpp"
#include "../matmul/cuda.hpp"
#include "../permute/cuda.hpp"
#include "../slice/cuda.hpp"
#include "../softmax/cuda.hpp"
#include "attention.hpp"
#include "cuda_cached.hpp"
#include "cuda_flash.hpp"
#include "cuda_tensor_backward.hpp"

namespace gradus {

namespace cuda_kit {

template <class C, class T, index_t Depth, bool Causal>
struct attention_launches {
  static constexpr bool on_tensor_cores = sizeof(T) == 2 && std::is_same_v<C, float> && Depth % 8 == 0 && Depth <= 128;
  using flash = std::conditional_t<on_tensor_cores, tensor_attention<T, on_tensor_cores ? Depth : 16, Causal>,
                                   flash_attention<C, T, Depth, Causal>>;

  int batch, heads, queries, keys;

  void forward(context<cuda>& ctx, attention_operand<T> out, C* lse, attention_operand<const T> q,
               attention_operand<const T> k, attention_operand<const T> v) const {
    if (by_cudnn(ctx, lse, q, k, v, out)) return;
    const int pairs = batch * heads;
    using tiles = typename flash::forward;
    const auto run = [&](auto kernel) {
      launch_with_shared(ctx, kernel, static_cast<unsigned>(pairs * tiles::row_blocks_of(queries)), tiles::threads,
                         tiles::forward_bytes, pairs, heads, out, lse, q, k, v, queries, keys);
    };
    if constexpr (on_tensor_cores) run(&tensor_attention_kernel<tiles, T>);
    else run(&attention_forward_kernel<tiles, C, T>);
  }
  void backward(context<cuda>& ctx, attention_operand<T> dq, attention_operand<T> dk, attention_operand<T> dv,
                attention_operand<const T> dy, attention_operand<const T> q, attention_operand<const T> k,
                attention_operand<const T> v, attention_operand<const T> y, const C* lse) const {
    if (by_cudnn(ctx, lse, q, k, v, y, dy, dq, dk, dv)) return;
    const bool all = dq.data != nullptr && (dk.data != nullptr || dv.data != nullptr);
    backward(ctx, all ? head_blocks(ctx.stream().processors()) : 0, dq, dk, dv, dy, q, k, v, y, lse);
  }
  /// By whole heads, with `by_heads` blocks, or by tiles if that is 0; the gradients have the same bits.
  void backward(context<cuda>& ctx, unsigned by_heads, attention_operand<T> dq, attention_operand<T> dk,
                attention_operand<T> dv, attention_operand<const T> dy, attention_operand<const T> q,
                attention_operand<const T> k, attention_operand<const T> v, attention_operand<const T> y,
                const C* lse) const {
    const int pairs = batch * heads;
    const index_t rows = static_cast<index_t>(pairs) * static_cast<index_t>(queries), aligned = (rows + 3) / 4 * 4;
    C* const delta = scratch<C>(ctx, aligned + by_heads * head_sums());
    if (!on_tensor_cores || dq.data == nullptr)
      launch(ctx, &attention_delta_kernel<C, T, Depth>, blocks_for(rows * delta_rows<C, T, Depth>::lanes),
             block_threads, delta, pairs, heads, queries, dy, y);
    if constexpr (on_tensor_cores) {
      const attention_gradients<T> g{pairs, heads, queries, keys, dq, dk, dv, dy, q, k, v, y, lse, delta};
      if constexpr (flash::has_whole_heads) {
        using whole = typename flash::whole_heads;
        if (by_heads > 0)
          return launch_with_shared(ctx, &tensor_attention_heads_kernel<whole, T>, by_heads, whole::threads,
                                    whole::dkv_bytes + head_dq<whole, T>::bytes, g, delta + aligned);
      }
      const auto run = [&](auto kernel, int rows_there, std::size_t bytes) {
        launch_with_shared(ctx, kernel, static_cast<unsigned>(pairs * flash::row_blocks_of(rows_there)), flash::threads,
                           bytes, g);
      };
      if (dq.data != nullptr) run(&tensor_attention_dq_kernel<flash, T>, queries, flash::dq_bytes);
      if (dk.data != nullptr || dv.data != nullptr) run(&tensor_attention_dkv_kernel<flash, T>, keys, flash::dkv_bytes);
    } else {
      const auto run = [&](auto kernel, int rows_there, std::size_t bytes, auto... gradients) {
        launch_with_shared(ctx, kernel, static_cast<unsigned>(pairs * flash::row_blocks_of(rows_there)), flash::threads,
                           bytes, pairs, heads, gradients..., dy, q, k, v, lse, delta, queries, keys);
      };
      if (dq.data != nullptr) run(&attention_dq_kernel<flash, C, T>, queries, flash::dq_bytes, dq);
      if (dk.data != nullptr || dv.data != nullptr)
        run(&attention_dkv_kernel<flash, Causal, C, T>, keys, flash::dkv_bytes, dk, dv);
    }
  }

  /// Blocks of the backward kernel that takes whole heads; 0: tiles are faster. A block a multiprocessor takes a head
  /// in turn, with five products a tile in place of seven: the last turn must not leave too many idle, and the sums of
  /// dq must fit in the second-level cache.
  unsigned head_blocks(int processors) const {
    const int pairs = batch * heads;
    constexpr std::size_t cache = std::size_t{40} << 20;  // an A100's
    const int blocks = std::min(pairs, processors), turns = (pairs + processors - 1) / processors;
    const bool pays = 5 * pairs >= 4 * turns * processors && head_sums() > 0 &&
                      static_cast<index_t>(blocks) * head_sums() * sizeof(float) <= cache;
    return pays ? static_cast<unsigned>(blocks) : 0;
  }

 private:
  /// Operands in the order of cudnn_problem. False, and nothing is done, if the program is without cuDNN or that does
  /// not do this: it has no kernel, or a result is not needed or accumulates.
  template <class... Operand>
  bool by_cudnn(context<cuda>& ctx, const C* lse, const Operand&... operand) const {
    if constexpr (with_cudnn && on_tensor_cores) {
      if (((operand.data == nullptr || operand.accumulate) || ...)) return false;
      cudnn_problem problem{.backward = sizeof...(Operand) == cudnn_problem::operands,
                            .causal = Causal,
                            .in_bf16 = std::is_same_v<T, bf16>,
                            .has_lse = lse != nullptr,
                            .batch = batch,
                            .heads = heads,
                            .queries = queries,
                            .keys = keys,
                            .depth = Depth};
      cudnn_addresses addresses{};
      addresses.back() = const_cast<C*>(lse);  // backward reads it
      std::size_t i = 0;
      ((problem.layout[i] = {static_cast<std::int64_t>(operand.batch), static_cast<std::int64_t>(operand.head),
                             static_cast<std::int64_t>(operand.time)},
        addresses[i++] = const_cast<T*>(operand.data)),
       ...);
      return ctx.get<cudnn_attention>().run(ctx, problem, addresses);
    } else {
      return false;
    }
  }
  index_t head_sums() const {
    if constexpr (on_tensor_cores) {
      if constexpr (flash::has_whole_heads)
        return head_dq<typename flash::whole_heads, T>::sums_of(static_cast<index_t>(queries));
    }
    return 0;
  }
};

}  // namespace cuda_kit

template <index_t Heads>
struct kernel<op::causal_attention<Heads>, cuda> {
  template <class T, class Y, class C, class S, class X>
  static void forward(context<cuda>& ctx, view<T, Y, cuda> y, view<C, S, cuda> lse, view<const T, X, cuda> qkv) {
    using d = dims<X>;
    d::template launches<C, T>.forward(ctx, d::output(y.data()), lse.data(), d::part(qkv.data(), 0),
                                       d::part(qkv.data(), 1), d::part(qkv.data(), 2));
  }
  template <class T, class X, class Y, class C, class S>
  static void backward(context<cuda>& ctx, view<T, X, cuda> dqkv, bool accumulate, view<const T, Y, cuda> dy,
                       view<const T, X, cuda> qkv, view<const T, Y, cuda> y, view<const C, S, cuda> lse) {
    using d = dims<X>;
    d::template launches<C, T>.backward(ctx, d::part(dqkv.data(), 0, accumulate), d::part(dqkv.data(), 1, accumulate),
                                        d::part(dqkv.data(), 2, accumulate), d::output(dy.data()),
                                        d::part(qkv.data(), 0), d::part(qkv.data(), 1), d::part(qkv.data(), 2),
                                        d::output(y.data()), lse.data());
  }

 private:
  template <class X>
  struct dims : detail::packed_attention<Heads, X> {
    template <class C, class T>
    static constexpr cuda_kit::attention_launches<C, T, dims::depth, true> launches = {dims::batch, Heads, dims::time,
                                                                                       dims::time};
  };
};

template <bool Causal>
struct kernel<op::scaled_attention<Causal>, cuda> {
  template <class T, class Q, class C, class S, class K>
  static void forward(context<cuda>& ctx, view<T, Q, cuda> y, view<C, S, cuda> lse, view<const T, Q, cuda> q,
                      view<const T, K, cuda> k, view<const T, K, cuda> v) {
    launches<C, T, Q, K>.forward(ctx, at(y), lse.data(), at(q), at(k), at(v));
  }
  template <class T, class Q, class K, class C, class S>
  static void backward(context<cuda>& ctx, attention_operand<T> dq, attention_operand<T> dk, attention_operand<T> dv,
                       view<const T, Q, cuda> dy, view<const T, Q, cuda> q, view<const T, K, cuda> k,
                       view<const T, K, cuda> v, view<const T, Q, cuda> y, view<const C, S, cuda> lse) {
    launches<C, T, Q, K>.backward(ctx, dq, dk, dv, at(dy), at(q), at(k), at(v), at(y), lse.data());
  }

 private:
  template <class C, class T, class Q, class K>
  static constexpr cuda_kit::attention_launches<C, T, Q::extent(3), Causal> launches = {Q::extent(0), Q::extent(1),
                                                                                        Q::extent(2), K::extent(2)};
  template <class T, class S>
  static attention_operand<T> at(view<T, S, cuda> x) {
    return {x.data(), S::stride(0), S::stride(1), S::stride(2), false};
  }
};

}  // namespace gradus
