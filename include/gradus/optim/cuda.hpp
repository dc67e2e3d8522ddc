#pragma once
// One launch updates many tensors: their addresses travel in the kernel's parameters, and blocks take fixed chunks of them in turn.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "../core/math.hpp"
#include "../cuda/access.hpp"
#include "../cuda/launch.hpp"
#include "../cuda/reduce_cub.hpp"
#include "../tensor/tensor.hpp"
#include "adamw.hpp"
#include "sgd.hpp"

namespace gradus {

namespace cuda_kit {

inline constexpr int update_chunk = 4096;  ///< elements that a block takes at a time

/// A batch of tensors, small enough for 4 KiB of kernel parameters.
template <class T>
struct span_table {
  static constexpr int capacity = 64;
  update_span<T> spans[capacity];
  std::uint32_t first_chunk[capacity + 1];  // of each tensor; the last entry counts them all
  int size = 0;
};
static_assert(sizeof(span_table<double>) + 128 <= 4096);

/// Runs f(table) on tables that together hold all spans.
template <class T, class F>
void for_tables(const std::vector<update_span<T>>& spans, const F& f) {
  for (std::size_t done = 0; done < spans.size();) {
    span_table<T> table;
    table.first_chunk[0] = 0;
    for (; done < spans.size() && table.size < span_table<T>::capacity; ++done) {
      const index chunks = (spans[done].size + update_chunk - 1) / update_chunk;
      table.spans[table.size] = spans[done];
      table.first_chunk[table.size + 1] = table.first_chunk[table.size] + static_cast<std::uint32_t>(chunks);
      ++table.size;
    }
    f(table);
  }
}

/// Blocks that keep the GPU busy, each with chunks to take in turn.
template <class T>
unsigned table_blocks(context<cuda>& ctx, const span_table<T>& table) {
  return std::min<unsigned>(table.first_chunk[table.size], static_cast<unsigned>(ctx.stream().processors()) * 8);
}

template <class T>
__device__ inline bool aligned(const T* p) {
  return reinterpret_cast<std::uintptr_t>(p) % 16 == 0;
}

/// Calls body(whole, span, at, n) for the runs of up to Width elements that this thread owns; `whole` says that all Width are there
/// and that each address is aligned for them.
template <int Width, class T, class Body>
__device__ inline void for_runs(const span_table<T>& table, const Body& body) {
  const std::uint32_t chunks = table.first_chunk[table.size];
  int which = 0;
  for (std::uint32_t chunk = blockIdx.x; chunk < chunks; chunk += gridDim.x) {
    while (chunk >= table.first_chunk[which + 1]) ++which;
    const update_span<T>& s = table.spans[which];
    const index begin = static_cast<index>(chunk - table.first_chunk[which]) * update_chunk;
    const index end = begin + update_chunk < s.size ? begin + update_chunk : s.size;
    const bool vectors = aligned(s.value) && aligned(s.gradient) && aligned(s.moment1) && aligned(s.moment2);
    for (index at = begin + threadIdx.x * Width; at < end; at += block_threads * Width) {
      const int n = end - at < Width ? static_cast<int>(end - at) : Width;
      if (vectors && n == Width) body(std::true_type{}, s, at, n);
      else body(std::false_type{}, s, at, n);
    }
  }
}

template <class T>
struct adamw_constants {
  T beta1, beta2, rest1, rest2, lr, step, root, eps, scale;
};

template <class T>
__global__ void __launch_bounds__(block_threads)
    adamw_kernel(const __grid_constant__ span_table<T> table, adamw_constants<T> c) {
  constexpr int width = vector_width<T>;
  for_runs<width>(table, [&](auto whole, const update_span<T>& s, index at, int n) {
    constexpr bool all = decltype(whole)::value;
    const auto g = load<width, all>(s.gradient + at, n);
    auto m = load<width, all>(s.moment1 + at, n);
    auto v = load<width, all>(s.moment2 + at, n);
    auto p = load<width, all>(s.value + at, n);
    const T keep = T(1) - c.lr * s.weight_decay;
#pragma unroll
    for (int i = 0; i < width; ++i) {
      const T scaled = g.at[i] * c.scale;
      m.at[i] = c.beta1 * m.at[i] + c.rest1 * scaled;
      v.at[i] = c.beta2 * v.at[i] + c.rest2 * scaled * scaled;
      p.at[i] = p.at[i] * keep - c.step * m.at[i] / (math::sqrt(v.at[i]) * c.root + c.eps);
    }
    store<width, all>(s.moment1 + at, m, n);
    store<width, all>(s.moment2 + at, v, n);
    store<width, all>(s.value + at, p, n);
  });
}

template <class T>
__global__ void __launch_bounds__(block_threads)
    sgd_kernel(const __grid_constant__ span_table<T> table, T lr, T momentum, T scale, bool first) {
  constexpr int width = vector_width<T>;
  for_runs<width>(table, [&](auto whole, const update_span<T>& s, index at, int n) {
    constexpr bool all = decltype(whole)::value;
    auto step = load<width, all>(s.gradient + at, n);
    auto p = load<width, all>(s.value + at, n);
#pragma unroll
    for (int i = 0; i < width; ++i) step.at[i] = step.at[i] * scale + s.weight_decay * p.at[i];
    if (s.moment1 != nullptr) {
      if (!first) {
        const auto v = load<width, all>(s.moment1 + at, n);
#pragma unroll
        for (int i = 0; i < width; ++i) step.at[i] += momentum * v.at[i];
      }
      store<width, all>(s.moment1 + at, step, n);
    }
#pragma unroll
    for (int i = 0; i < width; ++i) p.at[i] -= lr * step.at[i];
    store<width, all>(s.value + at, p, n);
  });
}

/// One block a partial sum.
inline constexpr unsigned square_sum_blocks = op::gradient_square_sum::partial_sums::size;

/// Adds each block's squares to its own partial sum (or assigns them, in the first table).
template <class T>
__global__ void __launch_bounds__(block_threads)
    square_sum_kernel(const __grid_constant__ span_table<T> table, double* partial, bool first) {
  constexpr int width = vector_width<T>;
  double sum = 0;
  for_runs<width>(table, [&](auto whole, const update_span<T>& s, index at, int n) {
    const auto g = load<width, decltype(whole)::value>(s.gradient + at, n);
#pragma unroll
    for (int i = 0; i < width; ++i) sum += static_cast<double>(g.at[i]) * static_cast<double>(g.at[i]);
  });
  const double all = block_sum<static_cast<int>(block_threads)>(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = first ? all : partial[blockIdx.x] + all;
}

template <int Threads>
__global__ void __launch_bounds__(Threads) add_partials_kernel(double* out, const double* partial) {
  const double all = block_sum<Threads>(partial[threadIdx.x]);
  if (threadIdx.x == 0) *out = all;
}

}  // namespace cuda_kit

/// In a fixed order, without atomics: the same bits every run.
template <>
struct kernel<op::gradient_square_sum, cuda> {
  template <class T>
  static void forward(context<cuda>& ctx, view<double, shape<>, cuda> out,
                      view<double, op::gradient_square_sum::partial_sums, cuda> sums,
                      const std::vector<update_span<T>>& spans) {
    using namespace cuda_kit;
    double* partial = sums.data();
    if (spans.empty()) device_access<cuda>::zero(ctx, partial, square_sum_blocks * sizeof(double));
    bool first = true;
    for_tables(spans, [&](const span_table<T>& table) {
      launch(ctx, &square_sum_kernel<T>, square_sum_blocks, block_threads, table, partial, first);
      first = false;
    });
    launch(ctx, &add_partials_kernel<static_cast<int>(square_sum_blocks)>, 1, square_sum_blocks, out.data(), partial);
  }
};

template <>
struct kernel<op::adamw_step, cuda> {
  template <class T>
  static void forward(context<cuda>& ctx, const std::vector<update_span<T>>& spans, const adamw_scalars& s) {
    const auto t = [](double x) { return static_cast<T>(x); };
    const cuda_kit::adamw_constants<T> c{t(s.beta1),
                                         t(s.beta2),
                                         t(1 - s.beta1),
                                         t(1 - s.beta2),
                                         t(s.lr),
                                         t(s.lr / s.correction1),
                                         t(1 / std::sqrt(s.correction2)),
                                         t(s.eps),
                                         t(s.gradient_scale)};
    cuda_kit::for_tables(spans, [&](const cuda_kit::span_table<T>& table) {
      cuda_kit::launch(ctx, &cuda_kit::adamw_kernel<T>, cuda_kit::table_blocks(ctx, table), cuda_kit::block_threads,
                       table, c);
    });
  }
};

template <>
struct kernel<op::sgd_step, cuda> {
  template <class T>
  static void forward(context<cuda>& ctx, const std::vector<update_span<T>>& spans, const sgd_scalars& s) {
    cuda_kit::for_tables(spans, [&](const cuda_kit::span_table<T>& table) {
      cuda_kit::launch(ctx, &cuda_kit::sgd_kernel<T>, cuda_kit::table_blocks(ctx, table), cuda_kit::block_threads,
                       table, static_cast<T>(s.lr), static_cast<T>(s.momentum), static_cast<T>(s.gradient_scale),
                       s.first);
    });
  }
};

}  // namespace gradus
