#pragma once
// The CUDA kernels of map(): runs the functor, and its derivatives, on runs of elements per thread.

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>

#include "../../core/dual.hpp"
#include "../../gpu/coarse_number.hpp"
#include "../../gpu/runs.hpp"
#include "../broadcast/cuda.hpp"
#include "elementwise.hpp"

namespace gradus {

namespace cuda_kit {

/// The type that F computes with: integers have 32 bits, or 64 if an operand has 64.
template <class T, class... Ts>
using functor_type = std::conditional_t<std::is_floating_point_v<compute_type<T>>, compute_type<T>,
                                        std::conditional_t<((sizeof(Ts) == 8) || ...), std::int64_t, std::int32_t>>;

/// The number type that F computes results of type T with: `C`, or coarse_number, as on the CPU.
template <class F, class T, class C>
using map_number = std::conditional_t<is_floating<T> && sizeof(T) == 2 && has_coarse_form<F>, coarse_number, C>;

template <class F, class T, int N, class... Ts>
__device__ inline void map_run(const F& f, T* to, const vector_of<Ts, N>&... runs) {
  using V = typename std::conditional_t<returns_condition<F>, std::type_identity<promote<Ts...>>,
                                        std::type_identity<T>>::type;
  using C = functor_type<V, Ts...>;
  using number = map_number<F, V, C>;
  vector_of<T, N> result;
#pragma unroll
  for (int i = 0; i < N; ++i)
    if constexpr (gradus::detail::functor_takes<F, V>)
      result.at[i] = static_cast<T>(static_cast<C>(f(number(static_cast<C>(runs.at[i]))...)));
  store<N, true>(to, result, N);
}

// Works in place: a thread reads its run before it writes it.
template <class F, class Walk, class T, class... In>
__global__ void __launch_bounds__(block_threads) map_kernel(F f, Walk walk, T* out, In... in) {
  walk_run(walk, [&](auto n, auto at) { map_run(f, out + at, in.template run<decltype(n)::value>(walk, at)...); });
}

/// One operand of an elementwise gradient: its values, and where to write its gradient.
template <class In, class G>
struct gradient_operand {
  In in;
  elementwise_target<G> to;
  using value = typename In::value;
  using gradient = G;
};

/// An operand's run, the run of its gradient, and where to write that.
template <class P, class C, int N>
struct gradient_run {
  vector_of<typename P::value, N> in;
  vector_of<C, N> out;
  elementwise_target<typename P::gradient> to;
};

template <class F, class C, int N, class Walk, class P>
__device__ inline gradient_run<P, C, N> open_run(const Walk& walk, const P& operand, typename Walk::count at) {
  gradient_run<P, C, N> run;
  if constexpr (!is_linear_functor<F>) run.in = operand.in.template run<N>(walk, at);
  run.to = operand.to;
  return run;
}

template <class F, class C, class Run>
__device__ inline C gradient_argument(const Run& run, int i) {
  if constexpr (is_linear_functor<F>) return C(1);  // not used by the derivatives
  else return static_cast<C>(run.in.at[i]);
}

// Reads the previous gradient only now: an operand that is used twice, as in x * x, has one gradient, written twice.
template <class C, int N, class P, class Count>
__device__ inline void close_run(const gradient_run<P, C, N>& run, Count at) {
  using G = typename P::gradient;
  if constexpr (is_floating<G>) {
    if (run.to.data == nullptr) return;
    G* to = run.to.data + at;
    vector_of<G, N> result;
    if (run.to.accumulate) {
      result = load<N, true>(to, N);
#pragma unroll
      for (int i = 0; i < N; ++i) result.at[i] = static_cast<G>(static_cast<C>(result.at[i]) + run.out.at[i]);
    } else {
#pragma unroll
      for (int i = 0; i < N; ++i) result.at[i] = static_cast<G>(run.out.at[i]);
    }
    store<N, true>(to, result, N);
  }
}

template <class F, class T, int N, class Count, std::size_t... K, class... P>
__device__ inline void map_gradient_run(const F& f, const T* grad, Count at, std::index_sequence<K...>,
                                        gradient_run<P, compute_type<T>, N>... runs) {
  using C = compute_type<T>;
  using number = map_number<F, T, C>;
  using D = dual<number, static_cast<int>(sizeof...(P))>;
  const auto g = load<N, true>(grad + at, N);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const D value = f(D(number(gradient_argument<F, C>(runs, i)), static_cast<int>(K))...);
    ((runs.out.at[i] = gradus::detail::gradient_through<F>(static_cast<C>(g.at[i]), static_cast<C>(value.partial[K]))),
     ...);
  }
  (close_run(runs, at), ...);
}

// Gradients have the output's shape; a later pass sums the gradients of broadcast operands.
template <class F, class Walk, class T, class... P>
__global__ void __launch_bounds__(block_threads) map_gradient_kernel(F f, Walk walk, const T* grad, P... operands) {
  walk_run(walk, [&](auto n, auto at) {
    map_gradient_run(f, grad, at, std::index_sequence_for<P...>{},
                     open_run<F, compute_type<T>, decltype(n)::value>(walk, operands, at)...);
  });
}

template <class F, class T>
struct map_launch {
  context<cuda>& ctx;
  const F& f;
  T* out;
  template <class Walk, class... In>
  void operator()(unsigned blocks, const Walk& walk, const In&... in) const {
    launch(ctx, &map_kernel<F, Walk, T, In...>, blocks, block_threads, f, walk, out, in...);
  }
};
template <class F, class T, class... Gs>
struct map_gradient_launch {
  context<cuda>& ctx;
  const F& f;
  const T* grad;
  std::tuple<elementwise_target<Gs>...> to;
  template <class Walk, class... In>
  void operator()(unsigned blocks, const Walk& walk, const In&... in) const {
    run(std::index_sequence_for<Gs...>{}, blocks, walk, in...);
  }
  template <std::size_t... K, class Walk, class... In>
  void run(std::index_sequence<K...>, unsigned blocks, const Walk& walk, const In&... in) const {
    submit(blocks, walk, gradient_operand<In, Gs>{in, std::get<K>(to)}...);
  }
  // One pack names the kernel: of two that are expanded together nvcc's halves make different names.
  template <class Walk, class... P>
  void submit(unsigned blocks, const Walk& walk, const P&... operands) const {
    launch(ctx, &map_gradient_kernel<F, Walk, T, P...>, blocks, block_threads, f, walk, grad, operands...);
  }
};

}  // namespace cuda_kit

/// One pass, with 16-byte accesses if the shapes allow them.
template <class F>
struct kernel<op::map<F>, cuda> {
  template <class T, class Out, class... Ts, class... Ins>
  static void forward(context<cuda>& ctx, const F& f, view<T, Out, cuda> out, view<const Ts, Ins, cuda>... in) {
    cuda_kit::with_walk<cuda_kit::vector_width<T, Ts...>>(cuda_kit::map_launch<F, T>{ctx, f, out.data()}, out.extents(),
                                                          in...);
  }

  template <class T, class Out, class... Ts, class... Ins, class... Gs>
  static void backward(context<cuda>& ctx, const F& f, view<const T, Out, cuda> grad,
                       std::tuple<view<const Ts, Ins, cuda>...> in, elementwise_target<Gs>... to) {
    const cuda_kit::map_gradient_launch<F, T, Gs...> gradient{ctx, f, grad.data(), {to...}};
    walk_over<cuda_kit::vector_width<T, Ts..., Gs...>>(gradient, grad, in, std::index_sequence_for<Ts...>{});
  }

 private:
  template <int Widest, std::size_t... K>
  static void walk_over(const auto& gradient, const auto& grad, const auto& in, std::index_sequence<K...>) {
    cuda_kit::with_walk<Widest>(gradient, grad.extents(), std::get<K>(in)...);
  }
};

}  // namespace gradus
