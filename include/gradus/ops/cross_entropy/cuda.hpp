#pragma once
// Three launches: count the rows that matter, one block a row, add up. Nothing comes back to the host: a target that is out of range
// makes the loss NaN.

#include <cmath>

#include "../../core/math.hpp"
#include "../../cuda/launch.hpp"
#include "../../cuda/reduce_cub.hpp"
#include "../broadcast/cuda.hpp"
#include "cross_entropy.hpp"

namespace gradus {

namespace cuda_kit {

inline constexpr int count_threads = 1024;

/// Leaves the number of targets that are not `ignore` in *loss, where the two other kernels find it.
template <class C, class I, index Rows>
__global__ void __launch_bounds__(count_threads)
    cross_entropy_count_kernel(C* loss, const I* targets, long long ignore) {
  int mine = 0;
  for (index r = threadIdx.x; r < Rows; r += count_threads)
    mine += static_cast<long long>(targets[r]) != ignore ? 1 : 0;
  const int all = block_sum<count_threads>(mine);
  if (threadIdx.x == 0) *loss = static_cast<C>(all);
}

/// One block a row. The largest element and the sum of exponentials are found in one pass (Milakov and Gimelshein 2018), the
/// gradient is written in a second; it may lie over the logits, since a thread reads its elements before it writes them.
template <class C, class T, class I, index Rows, index Columns, index Vocabulary, int Threads>
__global__ void __launch_bounds__(Threads)
    cross_entropy_row_kernel(const C* count, T* gradient, double* row_losses, const T* logits, const I* targets,
                             long long ignore) {
  constexpr int width = Columns % vector_width<T> == 0 ? vector_width<T> : 1;
  constexpr index runs = Columns / width;
  const index row = blockIdx.x;
  const T* x = logits + row * Columns;
  T* to = gradient == nullptr ? nullptr : gradient + row * Columns;
  const auto target = static_cast<long long>(targets[row]);
  const bool ignored = target == ignore;
  const bool valid = target >= 0 && target < static_cast<long long>(Vocabulary);
  const C at_target = valid ? static_cast<C>(x[target]) : C(0);  // before the gradient may be written over it

  C largest = -INFINITY;
  C sum = 0;
  if (!ignored) {
    for (index i = threadIdx.x; i < runs; i += Threads) {
      const auto v = load<width, true>(x + i * width, width);
      C best = largest;
#pragma unroll
      for (int j = 0; j < width; ++j)
        if (i * width + j<Vocabulary&& static_cast<C>(v.at[j])> best) best = static_cast<C>(v.at[j]);
      if (best > largest) {
        sum *= math::exp(largest - best);
        largest = best;
      }
#pragma unroll
      for (int j = 0; j < width; ++j)
        if (i * width + j < Vocabulary && best > -INFINITY) sum += math::exp(static_cast<C>(v.at[j]) - best);
    }
  }
  const C row_largest = block_max<Threads>(largest);
  const C row_sum = block_sum<Threads>(largest > -INFINITY ? sum * math::exp(largest - row_largest) : sum);
  if (threadIdx.x == 0) {
    const double loss =
        std::log(static_cast<double>(row_sum)) + (static_cast<double>(row_largest) - static_cast<double>(at_target));
    row_losses[row] = ignored ? 0.0 : valid ? loss : static_cast<double>(NAN);
  }
  if (to == nullptr) return;
  const C weight = C(1) / *count;
  const C scale = weight / row_sum;
  for (index i = threadIdx.x; i < runs; i += Threads) {
    vector_of<T, width> v;
    if (!ignored) v = load<width, true>(x + i * width, width);
#pragma unroll
    for (int j = 0; j < width; ++j) {
      const index column = i * width + j;
      C g = 0;
      if (!ignored && column < Vocabulary) g = math::exp(static_cast<C>(v.at[j]) - row_largest) * scale;
      if (!ignored && static_cast<long long>(column) == target) g -= weight;
      v.at[j] = static_cast<T>(g);
    }
    store<width, true>(to + i * width, v, width);
  }
}

/// *loss holds the count and becomes the mean.
template <class C, index Rows>
__global__ void __launch_bounds__(count_threads) cross_entropy_mean_kernel(C* loss, const double* row_losses) {
  double mine = 0;
  for (index r = threadIdx.x; r < Rows; r += count_threads) mine += row_losses[r];
  const double all = block_sum<count_threads>(mine);
  if (threadIdx.x == 0) *loss = *loss == C(0) ? C(0) : static_cast<C>(all / static_cast<double>(*loss));
}

/// x *= *factor; nothing is read or written when that is 1.
template <class T, class C, index Size>
__global__ void __launch_bounds__(block_threads) scale_kernel(T* x, const C* factor) {
  constexpr int width = vector_width<T>;
  using count = count_for<Size + width * block_threads>;
  const C f = *factor;
  const count at = (static_cast<count>(blockIdx.x) * block_threads + threadIdx.x) * width;
  if (f == C(1) || at >= Size) return;
  const auto scale = [&](auto whole, int n) {
    auto v = load<width, whole.value>(x + at, n);
#pragma unroll
    for (int i = 0; i < width; ++i) v.at[i] = static_cast<T>(static_cast<C>(v.at[i]) * f);
    store<width, whole.value>(x + at, v, n);
  };
  if (Size % width == 0 || at + width <= Size) scale(std::true_type{}, width);
  else scale(std::false_type{}, static_cast<int>(Size - at));
}

}  // namespace cuda_kit

template <index Vocabulary>
struct kernel<op::cross_entropy<Vocabulary>, cuda> {
  /// `gradient` may be null (not wanted) or the logits themselves.
  template <class C, class T, class X, class Rows, class I, class Targets>
  static void forward(context<cuda>& ctx, long long ignore, view<C, shape<>, cuda> loss, view<T, X, cuda> gradient,
                      view<double, Rows, cuda> row_losses, view<const T, X, cuda> logits,
                      view<const I, Targets, cuda> targets) {
    constexpr index rows = rows_of<X>;
    constexpr index columns = columns_of<X>;
    constexpr int threads = columns <= 256 ? 64 : columns <= 4096 ? 256 : 512;
    using namespace cuda_kit;
    launch(ctx, &cross_entropy_count_kernel<C, I, rows>, 1, count_threads, loss.data(), targets.data(), ignore);
    launch(ctx, &cross_entropy_row_kernel<C, T, I, rows, columns, Vocabulary, threads>, static_cast<unsigned>(rows),
           threads, loss.data(), gradient.data(), row_losses.data(), logits.data(), targets.data(), ignore);
    launch(ctx, &cross_entropy_mean_kernel<C, rows>, 1, count_threads, loss.data(), row_losses.data());
  }

  /// gradient *= dloss; the kernel touches nothing when that is 1.
  template <class T, class X, class C>
  static void backward(context<cuda>& ctx, view<T, X, cuda> gradient, view<const C, shape<>, cuda> dloss) {
    constexpr index vectors = (X::size + cuda_kit::vector_width<T> - 1) / cuda_kit::vector_width<T>;
    cuda_kit::launch(ctx, &cuda_kit::scale_kernel<T, C, X::size>, cuda_kit::blocks_for(vectors),
                     cuda_kit::block_threads, gradient.data(), dloss.data());
  }
};

}  // namespace gradus
