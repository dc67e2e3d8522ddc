#pragma once
// Cross-entropy on a GPU: counts the rows, one block per row, mean. A target out of range makes the loss NaN.

#include <cmath>

#include "../../core/math.hpp"
#include "../../gpu/coarse_number.hpp"
#include "../../gpu/workspace.hpp"
#include "../broadcast/cuda.hpp"
#include "cross_entropy.hpp"

namespace gradus {

namespace cuda_kit {

inline constexpr int count_threads = 1024;

/// The workspace for the number of targets that count, as an integer.
using count_workspace = basic_workspace<256>;

/// Stores the number of targets that are not `ignore` in *count, and {1 / (count * Kept), 0, 1} in `factors`, if any.
template <class Id, class F, int Kept>
__global__ void __launch_bounds__(count_threads)
    cross_entropy_count_kernel(int* count, F* factors, const Id* targets, index_t rows, long long ignore) {
  int mine = 0;
#pragma unroll 4
  for (index_t r = threadIdx.x; r < rows; r += count_threads)
    mine += static_cast<long long>(targets[r]) != ignore ? 1 : 0;
  const int all = row_sum<count_threads>(mine);
  if (threadIdx.x != 0) return;
  *count = all;
  if (factors == nullptr) return;
  factors[0] = all == 0 ? F(0) : F(1) / (static_cast<F>(all) * Kept);
  factors[1] = 0;
  factors[2] = 1;
}

/// The layout of a row's gradient: elements G, rows Stride apart. If it overwrites the logits and is narrower, a run is
/// written after all runs that it covers have been read. In f16, whose range is too narrow for a probability divided by
/// the number of rows, it is multiplied by `kept` and not divided by the count.
template <class T, class G>
struct logit_gradient {
  static constexpr bool narrower = sizeof(G) < sizeof(T);
  static constexpr int kept = narrower && std::is_same_v<G, f16> ? 1024 : 1;
  static constexpr bool divided = kept == 1;
};

/// e^x for results of type G. Results of 16 bits are rounded more coarsely than the GPU's approximation.
template <class G, class C>
__device__ inline C exp_for(C x) {
  if constexpr (sizeof(G) == 2) return coarse_exp(x);
  else return math::exp(x);
}

/// One block per row. The first pass finds maximum and sum of exponentials (Milakov and Gimelshein 2018), the second
/// writes the gradient times Kept, possibly over the logits: a thread reads its elements before it writes them.
template <class C, class T, class G, class Id, index_t Columns, index_t Stride, index_t Vocabulary, int Threads,
          int Kept>
__global__ void __launch_bounds__(Threads)
    cross_entropy_row_kernel(const int* count, G* gradient, double* row_losses, const T* logits, const Id* targets,
                             long long ignore) {
  using how = logit_gradient<T, G>;
  constexpr int widest = vector_width<T, G>;
  constexpr int width = Columns % widest == 0 && Stride % widest == 0 ? widest : 1;
  constexpr int runs = static_cast<int>(Columns / width), real = static_cast<int>(Vocabulary);
  constexpr int whole_runs = real / width;  // without columns that are no class
  const index_t row = blockIdx.x;
  const T* x = logits + row * Columns;
  G* to = gradient == nullptr ? nullptr : gradient + row * Stride;
  const auto target = static_cast<long long>(targets[row]);
  const bool ignored = target == ignore;
  const bool valid = target >= 0 && target < static_cast<long long>(Vocabulary);
  const C at_target = valid ? static_cast<C>(x[target]) : C(0);  // before the gradient may overwrite it

  C largest = -INFINITY;
  C sum = 0;
  if (!ignored) {
    const auto add = [&](int i, int classes) {
      const auto v = load<width, true>(x + i * width, width);
      C best = largest;
#pragma unroll
      for (int j = 0; j < width; ++j)
        if (const C one = static_cast<C>(v.at[j]); j < classes && one > best) best = one;
      if (best > largest) {
        sum *= exp_for<G>(largest - best);
        largest = best;
      }
      if (best == -INFINITY) return;
#pragma unroll
      for (int j = 0; j < width; ++j)
        if (j < classes) sum += exp_for<G>(static_cast<C>(v.at[j]) - best);
    };
    for (int i = threadIdx.x; i < whole_runs; i += Threads) add(i, width);
    if (real % width != 0 && threadIdx.x == whole_runs % Threads) add(whole_runs, real % width);
  }
  const C row_largest = row_max<Threads>(largest);
  const C row_total = row_sum<Threads>(largest > -INFINITY ? sum * exp_for<G>(largest - row_largest) : sum);
  if (threadIdx.x == 0) {
    const double loss =
        std::log(static_cast<double>(row_total)) + (static_cast<double>(row_largest) - static_cast<double>(at_target));
    row_losses[row] = ignored ? 0.0 : valid ? loss : static_cast<double>(NAN);
  }
  if (to == nullptr) return;
  // An ignored row's gradient is computed as of equal logits, times 0.
  const C weight = ignored ? C(0) : how::divided ? C(Kept) / static_cast<C>(*count) : C(how::kept);
  const C scale = ignored ? C(0) : weight / row_total, top = ignored ? C(0) : row_largest;
  for (int start = 0; start < runs; start += Threads) {
    const int i = start + static_cast<int>(threadIdx.x);
    vector_of<T, width> v{};
    if (!ignored && i < runs) v = load<width, true>(x + i * width, width);
    if constexpr (how::narrower) __syncthreads();  // element i overwrites logit i / 2
    if (i >= runs) continue;
    const auto probability = [&](int j) { return exp_for<G>(static_cast<C>(v.at[j]) - top) * scale; };
    if (i < whole_runs) put<width, true>(to + i * width, false, width, probability);
    else
      put<width, true>(to + i * width, false, width,
                       [&](int j) { return i * width + j < real ? probability(j) : C(0); });
  }
  // The target's element is written again, by the thread that wrote it.
  if (valid && !ignored && threadIdx.x == target / width % Threads)
    to[target] = convert_element<G>(exp_for<G>(at_target - top) * scale - weight);
}

/// Stores the mean over the rows that count in *loss.
template <class C>
__global__ void __launch_bounds__(count_threads)
    cross_entropy_mean_kernel(C* loss, const int* count, const double* row_losses, index_t rows) {
  double mine = 0;
#pragma unroll 4
  for (index_t r = threadIdx.x; r < rows; r += count_threads) mine += row_losses[r];
  const double all = row_sum<count_threads>(mine);
  if (threadIdx.x == 0) { *loss = *count == 0 ? static_cast<C>(0.0f) : convert_element<C>(all / *count); }
}

/// Launches the row kernel for `rows` rows.
template <class C, index_t Columns, index_t Stride, index_t Vocabulary, int Kept = 1, class T, class G, class Id>
void cross_entropy_rows(context<cuda>& ctx, index_t rows, const int* count, G* gradient, double* row_losses,
                        const T* logits, const Id* targets, long long ignore) {
  constexpr int threads = Columns <= 256 ? 64 : Columns <= 4096 ? 256 : 512;
  launch(ctx, &cross_entropy_row_kernel<C, T, G, Id, Columns, Stride, Vocabulary, threads, Kept>,
         static_cast<unsigned>(rows), threads, count, gradient, row_losses, logits, targets, ignore);
}

/// x *= *factor / Kept; accesses nothing if that is 1.
template <int Kept, class T, class F>
__global__ void __launch_bounds__(block_threads) scale_kernel(T* x, const F* factor, index_t size) {
  using C = compute_type<T>;
  constexpr int width = vector_width<T>;
  const C f = convert_element<C>(*factor) / C(Kept);
  if (f == C(1)) return;
  flat_run<width>(size, [&](auto whole, index_t at, int n) {
    const auto v = load<width, whole.value>(x + at, n);
    put<width, whole.value>(x + at, false, n, [&](int i) { return static_cast<C>(v.at[i]) * f; });
  });
}
template <int Kept = 1, class T, class F>
void scale(context<cuda>& ctx, T* x, const F* factor, index_t size) {
  launch(ctx, &scale_kernel<Kept, T, F>, flat_blocks(size, vector_width<T>), block_threads, x, factor, size);
}

}  // namespace cuda_kit

template <index_t Vocabulary>
struct kernel<op::cross_entropy<Vocabulary>, cuda> {
  /// `gradient` may be null (not needed) or the logits themselves.
  template <class S, class L, class T, class Id>
  static void forward(context<cuda>& ctx, long long ignore, shaped_matrix<S> of, L* loss, T* gradient,
                      double* row_losses, const T* logits, const Id* targets) {
    using namespace cuda_kit;
    constexpr index_t columns = row_columns<S>();
    auto* const count = static_cast<int*>(ctx.get<count_workspace>().reserve(ctx, sizeof(int)));
    launch(ctx, &cross_entropy_count_kernel<Id, float, 1>, 1, count_threads, count, static_cast<float*>(nullptr),
           targets, of.rows, ignore);
    cross_entropy_rows<compute_type<T>, columns, columns, Vocabulary,
                       op::cross_entropy<Vocabulary>::template kept<T>::value>(ctx, of.rows, count, gradient,
                                                                               row_losses, logits, targets, ignore);
    launch(ctx, &cross_entropy_mean_kernel<L>, 1, count_threads, loss, count, row_losses, of.rows);
  }

  /// gradient *= dloss / kept; the kernel accesses nothing if that is 1.
  template <class T, class L, int Kept>
  static void backward(context<cuda>& ctx, index_t size, T* gradient, const L* dloss,
                       std::integral_constant<int, Kept>) {
    cuda_kit::scale<Kept>(ctx, gradient, dloss, size);
  }
};

}  // namespace gradus
