#pragma once
// The CUDA kernels of batch, group and instance norm. Sums are of runs first (a run per warp or block), then of the
// runs of a group or channel, so that they need no atomics; what is done to each element has a thread for each run of
// 16 bytes.

#include <type_traits>

#include "../../core/math.hpp"
#include "../../gpu/rows.hpp"
#include "../../precision/promotion.hpp"
#include "channel_norm.hpp"

namespace gradus {

namespace cuda_kit {

/// This thread's row of sums of kernels that for_row_threads launches.
template <int Threads>
__device__ inline index_t row_of_thread() {
  return static_cast<index_t>(blockIdx.x) * rows_in_block(Threads) + threadIdx.x / Threads;
}
/// The sum of term(i) over i < n, by the Threads threads of a row, in a fixed order; all get it.
template <int Threads, class C, class Term>
__device__ inline C sum_of_row(index_t n, const Term& term) {
  C sum = 0;
  for (index_t i = threadIdx.x % Threads; i < n; i += Threads) sum += term(i);
  return row_sum<Threads>(sum);
}
template <class C, class M>
__device__ inline C rstd_of(const group_moments<M>& m, index_t group, C eps) {
  return C(1) / math::sqrt(static_cast<C>(m.variance(group)) + eps);
}

/// Calls body(at, width) for this thread's elements of run number `run` of `length`: `width`, a type, of them from `at`
/// on, which are Width where that is aligned and one at the run's ends.
template <int Threads, int Width, class Body>
__device__ inline void each_of_run(index_t run, index_t length, const Body& body) {
  constexpr std::integral_constant<int, 1> one;
  const index_t lane = threadIdx.x % Threads, begin = run * length, end = begin + length;
  const index_t whole = (begin + Width - 1) / Width * Width, first = whole < end ? whole : end;
  const index_t last = first + (end - first) / Width * Width;
  if (lane < first - begin) body(begin + lane, one);
#pragma unroll 2
  for (index_t at = first + lane * Width; at < last; at += Threads * Width)
    body(at, std::integral_constant<int, Width>{});
  if (lane < end - last) body(last + lane, one);
}

/// The mean and the sum of squared differences from it of each run, in parts [2, runs].
template <int Threads, class C, class T>
__global__ void __launch_bounds__(long_row_threads) run_moments_kernel(C* parts, const T* x, channel_groups of) {
  const index_t run = row_of_thread<Threads>();
  if (run >= of.runs()) return;
  const auto sum_of = [&](const auto& term) {
    C sum = 0;
    each_of_run<Threads, vector_width<T>>(run, of.length, [&](index_t at, auto width) {
      constexpr int n = decltype(width)::value;
      const auto v = load<n, true>(x + at, n);
#pragma unroll
      for (int i = 0; i < n; ++i) sum += term(static_cast<C>(v.at[i]));
    });
    return row_sum<Threads>(sum);
  };
  const C mean = sum_of([](C v) { return v; }) / static_cast<C>(of.length);
  const C squares = sum_of([&](C v) { return (v - mean) * (v - mean); });
  if (threadIdx.x % Threads != 0) return;
  parts[run] = mean;
  parts[of.runs() + run] = squares;
}
/// Moments [groups, 2] from the means of runs, and the sums of their squared differences unless these are null: 0.
template <int Threads, class C, class T>
__global__ void __launch_bounds__(long_row_threads)
    join_moments_kernel(C* moments, const T* means, const C* squares, channel_groups of) {
  const index_t group = row_of_thread<Threads>(), runs = of.runs_in_group();
  if (group >= of.groups()) return;
  const auto mean_of_run = [&](index_t i) { return static_cast<C>(means[of.run_of(group, i)]); };
  const C mean = sum_of_row<Threads, C>(runs, mean_of_run) / static_cast<C>(runs);
  const C sum = sum_of_row<Threads, C>(runs, [&](index_t i) {
    const C distance = mean_of_run(i) - mean;
    const C within = squares == nullptr ? C(0) : squares[of.run_of(group, i)];
    return distance * distance * static_cast<C>(of.length) + within;
  });
  if (threadIdx.x % Threads != 0) return;
  moments[2 * group] = mean;
  moments[2 * group + 1] = sum / static_cast<C>(of.elements_in_group());
}

/// Where the elements of a kernel with a thread for each run of 16 bytes belong.
template <class Count>
struct channel_walk {
  divisor<Count> length, channels, together;
  Count size;
  bool over_batch;

  channel_walk(const channel_groups& of, index_t elements)
      : length(static_cast<Count>(of.length)),
        channels(static_cast<Count>(of.channels)),
        together(static_cast<Count>(of.over_batch() ? 1 : of.together)),
        size(static_cast<Count>(elements)),
        over_batch(of.over_batch()) {}
  /// Calls body(at, channel, group) for this thread's elements, Width of them from `at` on.
  template <int Width, class Body>
  __device__ void each(const Body& body) const {
    const Count at = (static_cast<Count>(blockIdx.x) * block_threads + threadIdx.x) * Width;
    if (at >= size) return;
    const Count run = length.quotient(at);
    Count sample = run;
    const Count channel = channels.divide(sample);
    body(at, channel, over_batch ? channel : together.quotient(run));
  }
};

template <int Width, class C, class TY, class T, class TW, class TB, class M, class Count>
__global__ void __launch_bounds__(block_threads)
    normalise_channels_kernel(C eps, TY* y, const T* x, const TW* w, const TB* b, group_moments<M> moments,
                              channel_walk<Count> walk) {
  walk.template each<Width>([&](Count at, Count channel, Count group) {
    const C mean = static_cast<C>(moments.mean(group));
    const C scale = rstd_of(moments, group, eps) * static_cast<C>(w[channel]), shift = static_cast<C>(b[channel]);
    const auto v = load<Width, true>(x + at, Width);
    put<Width, true>(y + at, false, Width, [&](int i) { return (static_cast<C>(v.at[i]) - mean) * scale + shift; });
  });
}

/// The sums of dy and of dy x^ over each run, in parts [2, runs].
template <int Threads, class C, class TY, class T, class M>
__global__ void __launch_bounds__(long_row_threads)
    run_gradients_kernel(C eps, C* parts, const TY* dy, const T* x, group_moments<M> moments, channel_groups of) {
  const index_t run = row_of_thread<Threads>();
  if (run >= of.runs()) return;
  const C mean = static_cast<C>(moments.mean(of.group_of(run)));
  C sum = 0, product = 0;
  each_of_run<Threads, vector_width<TY, T>>(run, of.length, [&](index_t at, auto width) {
    constexpr int n = decltype(width)::value;
    const auto v = load<n, true>(x + at, n);
    const auto d = load<n, true>(dy + at, n);
#pragma unroll
    for (int i = 0; i < n; ++i) {
      sum += static_cast<C>(d.at[i]);
      product += static_cast<C>(d.at[i]) * (static_cast<C>(v.at[i]) - mean);
    }
  });
  sum = row_sum<Threads>(sum);
  product = row_sum<Threads>(product) * rstd_of(moments, of.group_of(run), eps);
  if (threadIdx.x % Threads != 0) return;
  parts[run] = sum;
  parts[of.runs() + run] = product;
}

/// dw and db, the sums of each channel: from the sums of its runs in `parts`, or, if that is null, from runs of one
/// element; and, if the channels are the groups, the means of the groups [groups, 2].
template <int Threads, class C, class TW, class TDW, class TDB, class TY, class T, class M>
__global__ void __launch_bounds__(long_row_threads)
    channel_gradients_kernel(C eps, elementwise_target<TDW> dw, elementwise_target<TDB> db, C* means, const C* parts,
                             const TY* dy, const T* x, const TW* w, group_moments<M> moments, channel_groups of) {
  const index_t channel = row_of_thread<Threads>();
  if (channel >= of.channels) return;
  C sum = 0, product = 0;
  if (parts != nullptr) {
    for (index_t b = threadIdx.x % Threads; b < of.batch; b += Threads) {
      sum += parts[b * of.channels + channel];
      product += parts[of.runs() + b * of.channels + channel];
    }
  } else {
    const C mean = static_cast<C>(moments.mean(channel)), rstd = rstd_of(moments, channel, eps);
    for (index_t b = threadIdx.x % Threads; b < of.batch; b += Threads) {
      const C d = static_cast<C>(dy[b * of.channels + channel]);
      sum += d;
      product += d * (static_cast<C>(x[b * of.channels + channel]) - mean) * rstd;
    }
  }
  sum = row_sum<Threads>(sum);
  product = row_sum<Threads>(product);
  if (threadIdx.x % Threads != 0) return;
  if (means != nullptr) {
    const C weight = static_cast<C>(w[channel]) / static_cast<C>(of.elements_in_group());
    means[2 * channel] = sum * weight;
    means[2 * channel + 1] = product * weight;
  }
  if (dw.data != nullptr) put<1, true>(dw.data + channel, dw.accumulate, 1, [&](int) { return product; });
  if (db.data != nullptr) put<1, true>(db.data + channel, db.accumulate, 1, [&](int) { return sum; });
}
/// The means over each group of g = dy w and of g x^ [groups, 2], from the sums of its runs.
template <int Threads, class C, class TW>
__global__ void __launch_bounds__(long_row_threads)
    group_gradients_kernel(C* means, const C* parts, const TW* w, channel_groups of) {
  const index_t group = row_of_thread<Threads>();
  if (group >= of.groups()) return;
  const auto mean_of = [&](index_t first) {
    return sum_of_row<Threads, C>(of.runs_in_group(),
                                  [&](index_t i) {
                                    const index_t run = of.run_of(group, i);
                                    return static_cast<C>(w[of.channel_of(run)]) * parts[first + run];
                                  }) /
           static_cast<C>(of.elements_in_group());
  };
  const C sum = mean_of(0), product = mean_of(of.runs());
  if (threadIdx.x % Threads != 0) return;
  means[2 * group] = sum;
  means[2 * group + 1] = product;
}

template <int Width, class C, class TDX, class TY, class T, class TW, class M, class Count>
__global__ void __launch_bounds__(block_threads)
    channel_norm_gradient_kernel(C eps, TDX* dx, bool accumulate, const C* means, const TY* dy, const T* x, const TW* w,
                                 group_moments<M> moments, channel_walk<Count> walk) {
  walk.template each<Width>([&](Count at, Count channel, Count group) {
    const C mean = static_cast<C>(moments.mean(group)), rstd = rstd_of(moments, group, eps);
    const C weight = static_cast<C>(w[channel]);
    const C mean_g = means == nullptr ? C(0) : means[2 * group];
    const C mean_gx = means == nullptr ? C(0) : means[2 * group + 1];
    const auto v = load<Width, true>(x + at, Width);
    const auto d = load<Width, true>(dy + at, Width);
    put<Width, true>(dx + at, accumulate, Width, [&](int i) {
      const C normal = (static_cast<C>(v.at[i]) - mean) * rstd;
      return rstd * (static_cast<C>(d.at[i]) * weight - mean_g - normal * mean_gx);
    });
  });
}

template <class T, class M>
__global__ void __launch_bounds__(block_threads)
    running_moment_kernel(T* next, const T* running, const M* moments, index_t which, double momentum, double factor,
                          index_t channels) {
  using C = compute_type<promote<T, M>>;
  const index_t c = static_cast<index_t>(blockIdx.x) * block_threads + threadIdx.x;
  if (c >= channels) return;
  const C share = static_cast<C>(momentum), rest = static_cast<C>(1 - momentum), by = static_cast<C>(factor);
  next[c] =
      convert_element<T>(rest * static_cast<C>(running[c]) + share * (by * static_cast<C>(moments[2 * c + which])));
}

/// Calls f(width) with the elements of a run, as a type: Widest if the runs of a channel consist of whole ones.
template <int Widest, class F>
void with_channel_width(const channel_groups& of, const F& f) {
  if (of.length % Widest == 0) f(std::integral_constant<int, Widest>{});
  else f(std::integral_constant<int, 1>{});
}
/// Elements are counted in 64 bits, if there may be more than a thread's index of 32 bits has.
template <class F>
void with_count(index_t size, const F& f) {
  if (size < (index_t{1} << 30)) f(std::uint32_t{});
  else f(std::uint64_t{});
}

}  // namespace cuda_kit

template <>
struct kernel<op::channel_moments<0>, cuda> {
  template <class C, class T>
  static void forward(context<cuda>& ctx, C* moments, C* parts, const T* x, const channel_groups& of) {
    if (of.are_columns()) return join(ctx, moments, x, static_cast<const C*>(nullptr), of);
    const index_t loads = of.length / cuda_kit::vector_width<T>;
    cuda_kit::for_row_threads(of.runs(), loads, [&](auto threads, unsigned blocks, int block) {
      launch(ctx, &cuda_kit::run_moments_kernel<decltype(threads)::value, C, T>, blocks, static_cast<unsigned>(block),
             parts, x, of);
    });
    join(ctx, moments, static_cast<const C*>(parts), static_cast<const C*>(parts + of.runs()), of);
  }

 private:
  template <class C, class T>
  static void join(context<cuda>& ctx, C* moments, const T* means, const C* squares, const channel_groups& of) {
    cuda_kit::for_row_threads(of.groups(), of.runs_in_group(), [&](auto threads, unsigned blocks, int block) {
      launch(ctx, &cuda_kit::join_moments_kernel<decltype(threads)::value, C, T>, blocks, static_cast<unsigned>(block),
             moments, means, squares, of);
    });
  }
};

template <>
struct kernel<op::channel_norm<0>, cuda> {
  template <class TY, class T, class TW, class TB, class M>
  static void forward(context<cuda>& ctx, double eps, TY* y, const T* x, const TW* w, const TB* b,
                      const group_moments<M>& moments, const channel_groups& of) {
    using C = compute_type<promote<TY, T>>;
    const index_t size = of.runs() * of.length;
    cuda_kit::with_channel_width<cuda_kit::vector_width<TY, T>>(of, [&](auto width) {
      cuda_kit::with_count(size, [&](auto count) {
        constexpr int n = decltype(width)::value;
        launch(ctx, &cuda_kit::normalise_channels_kernel<n, C, TY, T, TW, TB, M, decltype(count)>,
               cuda_kit::flat_blocks(size, n), cuda_kit::block_threads, static_cast<C>(eps), y, x, w, b, moments,
               cuda_kit::channel_walk<decltype(count)>(of, size));
      });
    });
  }
  template <class TDX, class TDW, class TDB, class C, class TY, class T, class TW, class M>
  static void backward(context<cuda>& ctx, double eps, elementwise_target<TDX> dx, elementwise_target<TDW> dw,
                       elementwise_target<TDB> db, C* parts, C* means, const TY* dy, const T* x, const TW* w,
                       const group_moments<M>& moments, const channel_groups& of) {
    const C by = static_cast<C>(eps);
    if (of.are_columns()) parts = nullptr;
    else
      cuda_kit::for_row_threads(of.runs(), of.length / cuda_kit::vector_width<TY, T>,
                                [&](auto threads, unsigned blocks, int block) {
                                  launch(ctx, &cuda_kit::run_gradients_kernel<decltype(threads)::value, C, TY, T, M>,
                                         blocks, static_cast<unsigned>(block), by, parts, dy, x, moments, of);
                                });
    cuda_kit::for_row_threads(of.channels, of.batch, [&](auto threads, unsigned blocks, int block) {
      launch(ctx, &cuda_kit::channel_gradients_kernel<decltype(threads)::value, C, TW, TDW, TDB, TY, T, M>, blocks,
             static_cast<unsigned>(block), by, dw, db, of.over_batch() ? means : nullptr, parts, dy, x, w, moments, of);
    });
    if (dx.data == nullptr) return;
    if (!of.over_batch() && means != nullptr)
      cuda_kit::for_row_threads(of.groups(), of.runs_in_group(), [&](auto threads, unsigned blocks, int block) {
        launch(ctx, &cuda_kit::group_gradients_kernel<decltype(threads)::value, C, TW>, blocks,
               static_cast<unsigned>(block), means, parts, w, of);
      });
    const index_t size = of.runs() * of.length;
    cuda_kit::with_channel_width<cuda_kit::vector_width<TDX, TY, T>>(of, [&](auto width) {
      cuda_kit::with_count(size, [&](auto count) {
        constexpr int n = decltype(width)::value;
        launch(ctx, &cuda_kit::channel_norm_gradient_kernel<n, C, TDX, TY, T, TW, M, decltype(count)>,
               cuda_kit::flat_blocks(size, n), cuda_kit::block_threads, by, dx.data, dx.accumulate, means, dy, x, w,
               moments, cuda_kit::channel_walk<decltype(count)>(of, size));
      });
    });
  }
};

template <>
struct kernel<op::running_moment, cuda> {
  template <class T, class M>
  static void forward(context<cuda>& ctx, T* next, const T* running, const M* moments, index_t which, double momentum,
                      double factor, index_t channels) {
    launch(ctx, &cuda_kit::running_moment_kernel<T, M>, cuda_kit::blocks_for(channels), cuda_kit::block_threads, next,
           running, moments, which, momentum, factor, channels);
  }
};

}  // namespace gradus
