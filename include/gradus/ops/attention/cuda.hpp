#pragma once
// The CUDA kernels of attention: chooses cuDNN, tensor cores or CUDA cores, and launches.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "../../gpu/cudnn_attention.hpp"
#include "../../gpu/workspace.hpp"
#include "../elementwise/cuda.hpp"
#include "../matmul/cuda.hpp"
#include "../permute/cuda.hpp"
#include "../slice/cuda.hpp"
#include "../softmax/cuda.hpp"
#include "attention.hpp"
#include "cuda_cached.hpp"
#include "cuda_flash.hpp"
#include "cuda_ruled.hpp"
#include "cuda_tensor_backward.hpp"

namespace gradus {

namespace cuda_kit {

template <class C, class T, index_t Depth, bool Causal>
struct attention_launches {
  static constexpr bool on_tensor_cores = sizeof(T) == 2 && std::is_same_v<C, float> && Depth % 8 == 0 && Depth <= 128;
  using flash = std::conditional_t<
      on_tensor_cores,
      tensor_attention<T, on_tensor_cores ? Depth : 16, plain_scores<on_tensor_cores ? Depth : 16, Causal>>,
      flash_attention<C, T, Depth, plain_launch<C, Depth, Causal>>>;

  int batch, heads, queries, keys;

  void forward(context<cuda>& ctx, attention_operand<T> out, C* lse, attention_operand<const T> q,
               attention_operand<const T> k, attention_operand<const T> v) const {
    if (by_cudnn(ctx, lse, q, k, v, out)) return;
    const int pairs = batch * heads;
    const auto run = [&]<class F>(F, auto kernel) {
      launch_with_shared(ctx, kernel, static_cast<unsigned>(pairs * F::row_blocks_of(queries)), F::threads,
                         F::forward_bytes, pairs, heads, out, lse, q, k, v, queries, keys, typename flash::rules{});
    };
    using tiles = typename flash::forward;
    if constexpr (on_tensor_cores) run(tiles{}, &tensor_attention_kernel<tiles, T>);
    else
      with_flash_tiles<flash_forward, tiles>(
          ctx.stream(), [&]<class F>(F fitting) { run(fitting, &attention_forward_kernel<F, C, T>); });
  }
  void backward(context<cuda>& ctx, attention_operand<T> dq, attention_operand<T> dk, attention_operand<T> dv,
                attention_operand<const T> dy, attention_operand<const T> q, attention_operand<const T> k,
                attention_operand<const T> v, attention_operand<const T> y, const C* lse) const {
    if (by_cudnn(ctx, lse, q, k, v, y, dy, dq, dk, dv)) return;
    const bool all = dq.data != nullptr && (dk.data != nullptr || dv.data != nullptr);
    const auto& gpu = ctx.stream();
    backward(ctx, all ? head_blocks(gpu.processors(), gpu.cache_bytes()) : 0, dq, dk, dv, dy, q, k, v, y, lse);
  }
  /// Computes gradients by whole heads, with `by_heads` blocks, or by tiles if that is 0, with the same bits.
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
        static_assert(whole::dkv_bytes + head_dq<whole, T>::bytes <= least_block_memory, "a head fits in every GPU");
        if (by_heads > 0)
          return launch_with_shared(ctx, &tensor_attention_heads_kernel<whole, T>, by_heads, whole::threads,
                                    whole::dkv_bytes + head_dq<whole, T>::bytes, g, delta + aligned);
      }
      const auto run = [&](auto kernel, int rows_there, std::size_t bytes) {
        launch_with_shared(ctx, kernel, static_cast<unsigned>(pairs * flash::row_blocks_of(rows_there)), flash::threads,
                           bytes, g, typename flash::rules{});
      };
      if (dq.data != nullptr) run(&tensor_attention_dq_kernel<flash, T>, queries, flash::dq_bytes);
      if (dk.data != nullptr || dv.data != nullptr) run(&tensor_attention_dkv_kernel<flash, T>, keys, flash::dkv_bytes);
    } else {
      const auto run = [&](auto kernel, index_t blocks, std::size_t bytes, auto... gradients) {
        launch_with_shared(ctx, kernel, static_cast<unsigned>(blocks), flash::threads, bytes, pairs, heads,
                           gradients..., dy, q, k, v, lse, delta, queries, keys, typename flash::rules{});
      };
      with_flash_tiles<flash_backward, flash>(ctx.stream(), [&]<class F>(F) {
        if (dq.data != nullptr) run(&attention_dq_kernel<F, C, T>, pairs * F::row_blocks_of(queries), F::dq_bytes, dq);
        if (dk.data != nullptr || dv.data != nullptr)
          run(&attention_dkv_kernel<F, C, T>, pairs * F::row_blocks_of(keys), F::dkv_bytes, dk, dv);
      });
    }
  }

  /// Blocks of the backward kernel that takes whole heads; 0: tiles are faster. A block a multiprocessor takes a head
  /// in turn, with five products a tile in place of seven: the last turn must not leave too many idle, and the sums of
  /// dq must fit in the second-level cache.
  unsigned head_blocks(int processors, std::size_t cache) const {
    const int pairs = batch * heads;
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

template <index_t Depth, bool Causal>
struct kernel<op::attention_pass<Depth, only_causal<Causal>>, cuda> {
  template <class C, class T>
  static void forward(context<cuda>& ctx, const attention_sizes& sizes, only_causal<Causal>, attention_operand<T> out,
                      C* lse, attention_operand<const T> q, attention_operand<const T> k,
                      attention_operand<const T> v) {
    launches<C, T>(sizes).forward(ctx, out, lse, q, k, v);
  }
  template <class C, class T>
  static void backward(context<cuda>& ctx, const attention_sizes& sizes, only_causal<Causal>,
                       const attention_results<C, T>& to, const attention_inputs<C, T>& from) {
    launches<C, T>(sizes).backward(ctx, to.q, to.k, to.v, from.dy, from.q, from.k, from.v, from.y, from.lse);
  }

 private:
  template <class C, class T>
  static cuda_kit::attention_launches<C, T, Depth, Causal> launches(const attention_sizes& of) {
    return {static_cast<int>(of.batch), static_cast<int>(of.heads), static_cast<int>(of.queries),
            static_cast<int>(of.keys)};
  }
};

/// Tensor cores compute 16-bit elements of heads that they take; without options but `causal`, as plain attention does.
template <index_t Depth, class C>
struct kernel<op::attention_pass<Depth, attention_rules<C>>, cuda> {
  template <class T>
  static void forward(context<cuda>& ctx, const attention_sizes& sizes, const attention_rules<C>& rules,
                      attention_operand<T> out, C* lse, attention_operand<const T> q, attention_operand<const T> k,
                      attention_operand<const T> v) {
    with_launches<T>(ctx, sizes, rules, [&](const auto& launches) { launches.forward(ctx, out, lse, q, k, v); });
  }
  template <class T>
  static void backward(context<cuda>& ctx, const attention_sizes& sizes, const attention_rules<C>& rules,
                       const attention_results<C, T>& to, const attention_inputs<C, T>& from) {
    with_launches<T>(ctx, sizes, rules, [&](const auto& launches) {
      if constexpr (requires { launches.backward(ctx, to, from); }) launches.backward(ctx, to, from);
      else launches.backward(ctx, to.q, to.k, to.v, from.dy, from.q, from.k, from.v, from.y, from.lse);
    });
  }

 private:
  template <class T, class F>
  static void with_launches(context<cuda>& ctx, const attention_sizes& of, const attention_rules<C>& rules,
                            const F& f) {
    if (rules.cap != 0) throw error("attention(q, k, v, options): cap: the CPU has it, the GPU does not");
    using plain = cuda_kit::attention_launches<C, T, Depth, true>;
    const cuda_kit::ruled_attention_launches<C, T, Depth> ruled{
        of, cuda_kit::ruled_launch<C>{rules, cuda_kit::follow(ctx, rules.key), static_cast<int>(of.group())}};
    if constexpr (plain::on_tensor_cores) {
      const auto with = [&]<bool Drops, bool Scored>(cuda_kit::ruled_scores<Drops, Scored>*) {
        f(cuda_kit::ruled_tensor_launches<T, Depth, cuda_kit::ruled_scores<Drops, Scored>>{ruled});
      };
      const bool same_scale = rules.scale == static_cast<C>(detail::inverse_square_root(Depth));
      const bool adjacent = rules.lengths == nullptr && rules.documents == nullptr && rules.window == 0;
      if (rules.mask != nullptr || rules.bias != nullptr || rules.scale <= 0)
        with(static_cast<cuda_kit::ruled_scores<true, true>*>(nullptr));
      else if (rules.threshold > 0) with(static_cast<cuda_kit::ruled_scores<true, false>*>(nullptr));
      else if (same_scale && adjacent && rules.causal && of.queries == of.keys && of.group() == 1)
        f(plain{static_cast<int>(of.batch), static_cast<int>(of.heads), static_cast<int>(of.queries),
                static_cast<int>(of.keys)});
      else with(static_cast<cuda_kit::ruled_scores<false, false>*>(nullptr));
    } else {
      f(ruled);
    }
  }
};

}  // namespace gradus
