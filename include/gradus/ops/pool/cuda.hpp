#pragma once
// The CUDA kernels of pooling: a thread for each output and, backward, for each element of dx, which it sums from the
// windows that have it.

#include <algorithm>
#include <cstdint>

#include "../../gpu/runs.hpp"
#include "../reduce/cuda.hpp"
#include "pool.hpp"

namespace gradus {

namespace cuda_kit {

/// Windows whose numbers, for an entry, take no division.
struct divided_windows : basic_pool_windows<std::uint32_t> {
  using windows = basic_pool_windows<std::uint32_t>;
  cuda_kit::divisor<std::uint32_t> by_stride;

  explicit divided_windows(const pool_windows& w)
      : windows{narrow(w.entries), narrow(w.outputs), narrow(w.size), narrow(w.stride), narrow(w.padding), w.adaptive},
        by_stride(w.adaptive ? 1 : stride) {}
  static std::uint32_t narrow(index_t n) { return static_cast<std::uint32_t>(n); }

  __device__ std::uint32_t first_with(std::uint32_t e) const {
    if (adaptive) return windows::first_with(e);
    return e + padding < size ? 0 : by_stride.quotient(e + padding - size) + 1;
  }
  __device__ std::uint32_t end_with(std::uint32_t e) const {
    return adaptive ? windows::end_with(e) : ::min(by_stride.quotient(e + padding) + 1, outputs);
  }
};

/// Planes of rows and columns, for kernels of one thread per element.
template <class Count>
struct plane_grid {
  divided_windows rows, columns;
  divisor<Count> width, height;  ///< of what threads are for
  Count size;                    ///< threads

  /// Threads for each output, or for each entry, of all planes.
  static plane_grid of_outputs(const pooled_planes& of) { return make(of, of.rows.outputs, of.columns.outputs); }
  static plane_grid of_entries(const pooled_planes& of) { return make(of, of.rows.entries, of.columns.entries); }
  static plane_grid make(const pooled_planes& of, index_t height, index_t width) {
    return {divided_windows(of.rows), divided_windows(of.columns), divisor<Count>(static_cast<Count>(width)),
            divisor<Count>(static_cast<Count>(height)), static_cast<Count>(of.planes * height * width)};
  }
  /// Calls body(thread, plane, row, column).
  template <class Body>
  __device__ void each(const Body& body) const {
    const Count thread = static_cast<Count>(blockIdx.x) * block_threads + threadIdx.x;
    if (thread >= size) return;
    Count plane = thread;
    const auto column = static_cast<std::uint32_t>(width.divide(plane));
    const auto row = static_cast<std::uint32_t>(height.divide(plane));
    body(thread, plane, row, column);
  }
  /// Where a plane begins.
  __device__ Count entry(Count plane) const { return plane * rows.entries * columns.entries; }
  __device__ Count output(Count plane) const { return plane * rows.outputs * columns.outputs; }
};

/// `places` may be null.
template <class T, class P, class Count>
__global__ void __launch_bounds__(block_threads) max_pool_kernel(T* y, P* places, const T* x, plane_grid<Count> grid) {
  using C = compute_type<T>;
  grid.each([&](Count thread, Count plane, std::uint32_t row, std::uint32_t column) {
    const T* const from = x + grid.entry(plane);
    std::uint32_t best_row = grid.rows.begin(row), best_column = grid.columns.begin(column);
    const std::uint32_t first = best_column, last_row = grid.rows.end(row), last = grid.columns.end(column);
    C best = static_cast<C>(from[best_row * grid.columns.entries + first]);
    for (std::uint32_t r = best_row; r < last_row; ++r)
      for (std::uint32_t c = first; c < last; ++c) {
        const C v = static_cast<C>(from[r * grid.columns.entries + c]);
        if (!(v > best) && (v == v || best != best)) continue;  // NaN is the largest
        best = v;
        best_row = r;
        best_column = c;
      }
    y[thread] = convert_element<T>(best);
    if (places == nullptr) return;
    places[thread] = static_cast<P>(grid.rows.number_of(best_row, row) * grid.columns.size +
                                    grid.columns.number_of(best_column, column));
  });
}

/// dx (+)= the sum of term(output, window's row, window's column) over the windows that have the thread's element.
template <class T, class Count, class Term>
__device__ inline void sum_over_windows(T* dx, bool accumulate, const plane_grid<Count>& grid, const Term& term) {
  using C = compute_type<T>;
  grid.each([&](Count thread, Count plane, std::uint32_t row, std::uint32_t column) {
    C sum = 0;
    const std::uint32_t last_row = grid.rows.end_with(row), last = grid.columns.end_with(column);
    for (std::uint32_t r = grid.rows.first_with(row); r < last_row; ++r)
#pragma unroll 1  // few windows have an element
      for (std::uint32_t c = grid.columns.first_with(column); c < last; ++c)
        sum += term(grid.output(plane) + r * grid.columns.outputs + c, row, column, r, c);
    put<1, true>(dx + thread, accumulate, 1, [&](int) { return sum; });
  });
}

template <class T, class TY, class P, class Count>
__global__ void __launch_bounds__(block_threads)
    max_pool_gradient_kernel(T* dx, bool accumulate, const TY* dy, const P* places, plane_grid<Count> grid) {
  using C = compute_type<T>;
  sum_over_windows(dx, accumulate, grid,
                   [&](Count output, std::uint32_t row, std::uint32_t column, std::uint32_t r, std::uint32_t c) {
                     const std::uint32_t place =
                         grid.rows.number_of(row, r) * grid.columns.size + grid.columns.number_of(column, c);
                     return static_cast<std::uint32_t>(places[output]) == place ? static_cast<C>(dy[output]) : C(0);
                   });
}

template <class T, class Count>
__global__ void __launch_bounds__(block_threads) avg_pool_kernel(T* y, const T* x, plane_grid<Count> grid) {
  using C = compute_type<T>;
  grid.each([&](Count thread, Count plane, std::uint32_t row, std::uint32_t column) {
    const T* const from = x + grid.entry(plane);
    C sum = 0;
    for (std::uint32_t r = grid.rows.begin(row); r < grid.rows.end(row); ++r)
      for (std::uint32_t c = grid.columns.begin(column); c < grid.columns.end(column); ++c)
        sum += static_cast<C>(from[r * grid.columns.entries + c]);
    y[thread] = convert_element<T>(sum / static_cast<C>(grid.rows.divisor(row) * grid.columns.divisor(column)));
  });
}

template <class T, class TY, class Count>
__global__ void __launch_bounds__(block_threads)
    avg_pool_gradient_kernel(T* dx, bool accumulate, const TY* dy, plane_grid<Count> grid) {
  using C = compute_type<T>;
  sum_over_windows(dx, accumulate, grid,
                   [&](Count output, std::uint32_t, std::uint32_t, std::uint32_t r, std::uint32_t c) {
                     return static_cast<C>(dy[output]) / static_cast<C>(grid.rows.divisor(r) * grid.columns.divisor(c));
                   });
}

}  // namespace cuda_kit

template <>
struct kernel<op::max_pool<>, cuda> {
  template <index_t Most, class T, class P>
  static void forward(context<cuda>& ctx, const pooled_planes_upto<Most>& of, T* y, P* places, const T* x) {
    using count = cuda_kit::count_for<Most>;
    const auto grid = cuda_kit::plane_grid<count>::of_outputs(of);
    launch(ctx, &cuda_kit::max_pool_kernel<T, P, count>, cuda_kit::blocks_for(grid.size), cuda_kit::block_threads, y,
           places, x, grid);
  }
  template <index_t Most, class T, class TY, class P>
  static void backward(context<cuda>& ctx, const pooled_planes_upto<Most>& of, T* dx, bool accumulate, const TY* dy,
                       const P* places) {
    using count = cuda_kit::count_for<Most>;
    const auto grid = cuda_kit::plane_grid<count>::of_entries(of);
    launch(ctx, &cuda_kit::max_pool_gradient_kernel<T, TY, P, count>, cuda_kit::blocks_for(grid.size),
           cuda_kit::block_threads, dx, accumulate, dy, places, grid);
  }
};

template <>
struct kernel<op::avg_pool<>, cuda> {
  template <index_t Most, class T>
  static void forward(context<cuda>& ctx, const pooled_planes_upto<Most>& of, T* y, const T* x) {
    using count = cuda_kit::count_for<Most>;
    const auto grid = cuda_kit::plane_grid<count>::of_outputs(of);
    launch(ctx, &cuda_kit::avg_pool_kernel<T, count>, cuda_kit::blocks_for(grid.size), cuda_kit::block_threads, y, x,
           grid);
  }
  template <index_t Most, class T, class TY>
  static void backward(context<cuda>& ctx, const pooled_planes_upto<Most>& of, T* dx, bool accumulate, const TY* dy) {
    using count = cuda_kit::count_for<Most>;
    const auto grid = cuda_kit::plane_grid<count>::of_entries(of);
    launch(ctx, &cuda_kit::avg_pool_gradient_kernel<T, TY, count>, cuda_kit::blocks_for(grid.size),
           cuda_kit::block_threads, dx, accumulate, dy, grid);
  }
};

}  // namespace gradus
