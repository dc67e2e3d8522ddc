#pragma once
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>

#include "../../core/dual.hpp"
#include "../../cuda/runs.hpp"
#include "../broadcast/cuda.hpp"
#include "elementwise.hpp"

namespace gradus {

namespace cuda_kit {

/// What an element is computed in: integers in the wider of i32 and what they are stored in.
template <class T, class... Ts>
using functor_type = std::conditional_t<std::is_floating_point_v<compute_type<T>>, compute_type<T>,
                                        std::conditional_t<((sizeof(Ts) == 8) || ...), std::int64_t, std::int32_t>>;

template <class Walk, bool Whole, class F, class T, class... Ts>
__device__ inline void map_run(const F& f, T* to, int n, const vector_of<Ts, Walk::width>&... runs) {
  using C = functor_type<T, Ts...>;
  vector_of<T, Walk::width> result;
#pragma unroll
  for (int i = 0; i < Walk::width; ++i)
    if constexpr (gradus::detail::functor_takes<F, T>) result.at[i] = static_cast<T>(f(static_cast<C>(runs.at[i])...));
  store<Walk::width, Whole>(to, result, n);
}

// The output may lie where an operand of the same shape lies: a thread reads its run before it writes it.
template <class F, class Walk, class Out, class... In>
__global__ void __launch_bounds__(block_threads) map_kernel(F f, Out out, In... in) {
  Walk::run([&](auto whole, auto at, int n) {
    constexpr bool all = decltype(whole)::value;
    map_run<Walk, all>(f, out.data() + at, n, operand_run<Walk, all>(in, at, n)...);
  });
}

/// One operand of an elementwise gradient: what it was, and where its gradient goes.
template <class S, class In, class G>
struct gradient_operand {
  view<const S, In, cuda> in;
  elementwise_target<G> to;
  using value = S;
  using gradient = G;
};

/// An operand's run, the run of its gradient, and where that goes.
template <class P, class C, int N>
struct gradient_run {
  vector_of<typename P::value, N> in;
  vector_of<C, N> out;
  elementwise_target<typename P::gradient> to;
};

template <class F, class Walk, bool Whole, class C, class P>
__device__ inline gradient_run<P, C, Walk::width> open_run(const P& operand, typename Walk::count at, int n) {
  gradient_run<P, C, Walk::width> run;
  if constexpr (!is_linear_functor<F>) run.in = operand_run<Walk, Whole>(operand.in, at, n);
  run.to = operand.to;
  return run;
}

template <class F, class C, class Run>
__device__ inline C gradient_argument(const Run& run, int i) {
  if constexpr (is_linear_functor<F>) return C(1);  // any value serves: the derivatives do not depend on it
  else return static_cast<C>(run.in.at[i]);
}

// What is there already is read only now: an operand that is used twice, as in x * x, has one gradient, written twice.
template <class Walk, bool Whole, class C, class P>
__device__ inline void close_run(const gradient_run<P, C, Walk::width>& run, typename Walk::count at, int n) {
  using G = typename P::gradient;
  if constexpr (is_floating<G>) {
    if (run.to.data == nullptr) return;
    G* to = run.to.data + at;
    vector_of<G, Walk::width> result;
    if (run.to.accumulate) {
      result = load<Walk::width, Whole>(to, n);
#pragma unroll
      for (int i = 0; i < Walk::width; ++i) result.at[i] = static_cast<G>(static_cast<C>(result.at[i]) + run.out.at[i]);
    } else {
#pragma unroll
      for (int i = 0; i < Walk::width; ++i) result.at[i] = static_cast<G>(run.out.at[i]);
    }
    store<Walk::width, Whole>(to, result, n);
  }
}

template <bool Whole, class Walk, class F, class T, std::size_t... K, class... P>
__device__ inline void map_gradient_run(const F& f, const T* grad, typename Walk::count at, int n,
                                        std::index_sequence<K...>,
                                        gradient_run<P, compute_type<T>, Walk::width>... runs) {
  using C = compute_type<T>;
  using D = dual<C, static_cast<int>(sizeof...(P))>;
  const auto g = load<Walk::width, Whole>(grad + at, n);
#pragma unroll
  for (int i = 0; i < Walk::width; ++i) {
    const D value = f(D(gradient_argument<F, C>(runs, i), static_cast<int>(K))...);
    ((runs.out.at[i] = gradus::detail::gradient_through<F>(static_cast<C>(g.at[i]), value.partial[K])), ...);
  }
  (close_run<Walk, Whole, C, P>(runs, at, n), ...);
}

// Gradients have the output's shape: operands that were broadcast are summed afterwards.
template <class F, class Walk, class Grad, class... P>
__global__ void __launch_bounds__(block_threads) map_gradient_kernel(F f, Grad grad, P... operands) {
  using each = std::index_sequence_for<P...>;
  using T = std::remove_const_t<typename Grad::value_type>;
  const T* from = grad.data();
  Walk::run([&](auto whole, auto at, int n) {
    constexpr bool all = decltype(whole)::value;
    map_gradient_run<all, Walk, F, T>(f, from, at, n, each{},
                                      open_run<F, Walk, all, compute_type<T>>(operands, at, n)...);
  });
}

}  // namespace cuda_kit

/// One pass, with 16-byte accesses where the shapes allow them.
template <class F>
struct kernel<op::map<F>, cuda> {
  template <class T, class Out, class... Ts, class... Ins>
  static void forward(context<cuda>& ctx, const F& f, view<T, Out, cuda> out, view<const Ts, Ins, cuda>... in) {
    using walk = cuda_kit::walk<Out, cuda_kit::vector_width<T, Ts...>, Ins...>;
    cuda_kit::launch(ctx, &cuda_kit::map_kernel<F, walk, view<T, Out, cuda>, view<const Ts, Ins, cuda>...>,
                     walk::blocks, cuda_kit::block_threads, f, out, in...);
  }

  template <class T, class Out, class... Ts, class... Ins, class... Gs>
  static void backward(context<cuda>& ctx, const F& f, view<const T, Out, cuda> grad,
                       std::tuple<view<const Ts, Ins, cuda>...> in, elementwise_target<Gs>... to) {
    using walk = cuda_kit::walk<Out, cuda_kit::vector_width<T, Ts..., Gs...>, Ins...>;
    std::apply(
        [&](const auto&... operand) {
          cuda_kit::launch(ctx,
                           &cuda_kit::map_gradient_kernel<F, walk, view<const T, Out, cuda>,
                                                          cuda_kit::gradient_operand<Ts, Ins, Gs>...>,
                           walk::blocks, cuda_kit::block_threads, f, grad,
                           cuda_kit::gradient_operand<Ts, Ins, Gs>{operand, to}...);
        },
        in);
  }
};

}  // namespace gradus
