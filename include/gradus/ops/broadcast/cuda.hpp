#pragma once
#include "../../core/dtype.hpp"
#include "../../cuda/launch.hpp"
#include "../../cuda/reduce_cub.hpp"
#include "../../precision/promotion.hpp"
#include "../../tensor/gradient_slot.hpp"
#include "../../tensor/view.hpp"
#include "broadcast.hpp"

namespace gradus {

namespace cuda_kit {

template <class T, index Size>
__global__ void __launch_bounds__(block_threads) accumulate_kernel(T* to, const T* from) {
  using C = compute_type<T>;
  constexpr int width = vector_width<T>;
  using count = count_for<Size + width * block_threads>;
  const count begin = (static_cast<count>(blockIdx.x) * block_threads + threadIdx.x) * width;
  if (begin >= Size) return;
  const auto add = [&](auto whole, int n) {
    auto sum = load<width, whole.value>(to + begin, n);
    const auto more = load<width, whole.value>(from + begin, n);
#pragma unroll
    for (int i = 0; i < width; ++i) sum.at[i] = static_cast<T>(static_cast<C>(sum.at[i]) + static_cast<C>(more.at[i]));
    store<width, whole.value>(to + begin, sum, n);
  };
  if (Size % width == 0 || begin + width <= Size) add(std::true_type{}, width);
  else add(std::false_type{}, static_cast<int>(Size - begin));
}

template <class To, class From, index Size>
__global__ void __launch_bounds__(block_threads) convert_kernel(To* to, const From* from, bool accumulate) {
  using C = compute_type<promote<To, From>>;
  using count = count_for<Size + block_threads>;
  const count at = static_cast<count>(blockIdx.x) * block_threads + threadIdx.x;
  if (at >= Size) return;
  if (accumulate) to[at] = convert_element<To>(static_cast<C>(to[at]) + convert_element<C>(from[at]));
  else to[at] = convert_element<To>(from[at]);
}

/// Row of Big for row `out_row` of Small and number `k` along the axes that are summed away.
template <class Small, class Big, index Axis = 1, class Count>
__device__ inline Count summed_row(Count out_row, Count k) {
  if constexpr (Axis >= Big::rank) {
    return 0;
  } else {
    constexpr Count extent = detail::extent_from_back<Big, Axis>;
    constexpr bool kept = detail::extent_from_back<Small, Axis> == detail::extent_from_back<Big, Axis>;
    if constexpr (kept)
      return out_row % extent + extent * summed_row<Small, Big, Axis + 1>(static_cast<Count>(out_row / extent), k);
    else return k % extent + extent * summed_row<Small, Big, Axis + 1>(out_row, static_cast<Count>(k / extent));
  }
}

inline constexpr int sum_threads = 512;

/// Each block sums a strip of columns, as wide as one 32-byte sector of memory: its threads take the rows in turn, then their
/// sums are added in a fixed order.
template <class T, class Small, class U, class Big>
__global__ void __launch_bounds__(sum_threads)
    sum_rows_kernel(T* to, const U* from, bool accumulate, compute_type<T> factor) {
  using C = compute_type<T>;
  using count = count_for<Big::size>;
  constexpr int strip = static_cast<int>(32 / sizeof(U));
  constexpr int lanes_of_rows = sum_threads / strip;
  constexpr count columns = columns_of<Big>;
  constexpr count out_rows = Small::size / columns_of<Big>;
  constexpr count terms = Big::size / Small::size;
  constexpr unsigned strips = static_cast<unsigned>((columns_of<Big> + strip - 1) / strip);
  __shared__ C sums[lanes_of_rows][strip];

  const count out_row = blockIdx.x / strips;
  const count column = blockIdx.x % strips * strip + threadIdx.x % strip;
  const int lane = static_cast<int>(threadIdx.x) / strip;
  static_assert(out_rows >= 1);
  C sum = 0;
  if (column < columns)
    for (count k = static_cast<count>(lane); k < terms; k += lanes_of_rows)
      sum += static_cast<C>(from[summed_row<Small, Big>(out_row, k) * columns + column]);
  sums[lane][threadIdx.x % strip] = sum;
  for (int half = lanes_of_rows / 2; half > 0; half /= 2) {
    __syncthreads();
    if (lane < half) sums[lane][threadIdx.x % strip] += sums[lane + half][threadIdx.x % strip];
  }
  if (lane == 0 && column < columns) {
    T* out = to + out_row * columns + column;
    const C total = factor * sums[0][threadIdx.x % strip];
    *out = static_cast<T>(accumulate ? static_cast<C>(*out) + total : total);
  }
}

/// Each block sums everything that goes into one element.
template <class T, class Small, class U, class Big>
__global__ void __launch_bounds__(sum_threads)
    sum_all_kernel(T* to, const U* from, bool accumulate, compute_type<T> factor) {
  using C = compute_type<T>;
  using count = count_for<Big::size + sum_threads>;
  constexpr count columns = columns_of<Big>;
  constexpr count terms = Big::size / Small::size;
  const count out = blockIdx.x;
  C sum = 0;
  for (count t = threadIdx.x; t < terms; t += sum_threads)
    sum += static_cast<C>(from[summed_row<Small, Big>(out, static_cast<count>(t / columns)) * columns + t % columns]);
  const C total = factor * block_sum<sum_threads>(sum);
  if (threadIdx.x == 0) to[out] = static_cast<T>(accumulate ? static_cast<C>(to[out]) + total : total);
}

/// to (+)= factor * the sums of `from` over the axes that Small has not, or has as 1.
template <class T, class Small, class U, class Big>
void sum_into(context<cuda>& ctx, view<T, Small, cuda> to, view<const U, Big, cuda> from, bool accumulate,
              compute_type<T> factor) {
  constexpr index columns = columns_of<Big>;
  if constexpr (columns_of<Small> == columns && columns > 1) {
    constexpr index strip = 32 / sizeof(U);
    constexpr index blocks = Small::size / columns * ((columns + strip - 1) / strip);
    launch(ctx, &sum_rows_kernel<T, Small, U, Big>, static_cast<unsigned>(blocks), sum_threads, to.data(), from.data(),
           accumulate, factor);
  } else {
    launch(ctx, &sum_all_kernel<T, Small, U, Big>, static_cast<unsigned>(Small::size), sum_threads, to.data(),
           from.data(), accumulate, factor);
  }
}

}  // namespace cuda_kit

template <>
struct kernel<op::accumulate, cuda> {
  template <class T, class S>
  static void forward(context<cuda>& ctx, view<T, S, cuda> to, view<const T, S, cuda> from) {
    constexpr index vectors = (S::size + cuda_kit::vector_width<T> - 1) / cuda_kit::vector_width<T>;
    cuda_kit::launch(ctx, &cuda_kit::accumulate_kernel<T, S::size>, cuda_kit::blocks_for(vectors),
                     cuda_kit::block_threads, to.data(), from.data());
  }
};

template <>
struct kernel<op::convert, cuda> {
  template <class To, class S, class From>
  static void forward(context<cuda>& ctx, view<To, S, cuda> to, view<const From, S, cuda> from, bool accumulate) {
    cuda_kit::launch(ctx, &cuda_kit::convert_kernel<To, From, S::size>, cuda_kit::blocks_for(S::size),
                     cuda_kit::block_threads, to.data(), from.data(), accumulate);
  }
};

/// Sums in a fixed order, without atomics: the same bits every run.
template <>
struct kernel<op::sum_to, cuda> {
  template <class T, class Small, class U, class Big>
  static void forward(context<cuda>& ctx, view<T, Small, cuda> to, view<const U, Big, cuda> from, bool accumulate) {
    cuda_kit::sum_into(ctx, to, from, accumulate, compute_type<T>(1));
  }
};

}  // namespace gradus
