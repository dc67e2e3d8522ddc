#pragma once
// The norm and finiteness of all gradients, and the counters that steps keep on the GPU.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "../../gpu/access.hpp"
#include "../../gpu/rows.hpp"
#include "../param_list.hpp"
#include "../step_inputs.hpp"
#include "spans.hpp"

namespace gradus {

namespace cuda_kit {

/// Sums of each unit of the gradients; a block of threads takes one unit at a time.
template <class G>
__global__ void __launch_bounds__(block_threads)
    gradient_pass_kernel(const __grid_constant__ span_table<gradient_span<G>> table, op::gradient_pass pass,
                         const gradient_scalars* so_far, double* partial, index_t units) {
  using C = compute_type<G>;
  constexpr int width = vector_width<G>;
  static_assert(update_chunk == piece_unit);
  const C factor = static_cast<C>(pass.early_factor(*so_far)), limit = static_cast<C>(pass.limit);
  for_chunks(table, [&](const gradient_span<G>& s, index_t begin, index_t end) {
    double squares = 0, not_finite = 0;
    for_runs<width>(begin, end, aligned<width>(s.gradient), [&](auto whole, index_t at, int n) {
      const auto g = load<width, decltype(whole)::value>(s.gradient + at, n);
#pragma unroll
      for (int i = 0; i < width; ++i) {
        const C raw = static_cast<C>(g.at[i]), scaled = raw * factor;
        const double held = static_cast<double>(scaled > limit ? limit : scaled < -limit ? -limit : scaled);
        squares += held * held;
        not_finite += static_cast<double>(raw * C(0));
      }
    });
    squares = row_sum<static_cast<int>(block_threads)>(squares);
    not_finite = row_sum<static_cast<int>(block_threads)>(not_finite);
    if (threadIdx.x == 0) {
      double* const at = partial + s.unit + begin / piece_unit;
      at[0] = squares;
      at[units] = not_finite;
    }
  });
}

inline constexpr int concluding_threads = 1024;
template <class = void>
__global__ void __launch_bounds__(concluding_threads)
    conclude_gradient_pass_kernel(op::gradient_pass pass, gradient_scalars* to, const double* partial, index_t units) {
  double squares = 0, not_finite = 0;
  for (index_t i = threadIdx.x; i < units; i += concluding_threads) {
    squares += partial[i];
    not_finite += partial[units + i];
  }
  squares = row_sum<concluding_threads>(squares);
  not_finite = row_sum<concluding_threads>(not_finite);
  if (threadIdx.x == 0) pass.conclude(*to, squares, not_finite);
}

template <class = void>  // templates, so that several files may define them
__global__ void count_skipped_kernel(const gradient_scalars* scalars, double* skipped, loss_scale_counts* counts) {
  if (scalars->found_inf == 0) return;
  *skipped += 1;
  counts->found_inf = 1;
}
/// Numbers of parameters, passed to a kernel by value.
struct number_table {
  static constexpr unsigned capacity = 512;
  std::uint32_t at[capacity];
  unsigned size = 0;
};
template <class = void>
__global__ void count_missed_kernel(const __grid_constant__ number_table of, const gradient_scalars* scalars,
                                    double* missed) {
  if (scalars != nullptr && scalars->found_inf != 0) return;
  if (threadIdx.x < of.size) missed[of.at[threadIdx.x]] += 1;
}
template <class = void>
__global__ void update_loss_scale_kernel(op::update_loss_scale update, float* scale, loss_scale_counts* counts) {
  update(*scale, *counts);
}

}  // namespace cuda_kit

/// Adds in a fixed order, without atomics: the same bits in every run.
template <>
struct kernel<op::gradient_pass, cuda> {
  template <class G>
  static void forward(context<cuda>& ctx, const op::gradient_pass& pass, const gradient_scalars* so_far,
                      double* partial, index_t units, const std::vector<gradient_span<G>>& spans) {
    cuda_kit::launch_on_spans(ctx, spans, &cuda_kit::gradient_pass_kernel<G>, pass, so_far, partial, units);
  }
  static void conclude(context<cuda>& ctx, const op::gradient_pass& pass, gradient_scalars* to, const double* partial,
                       index_t units) {
    launch(ctx, &cuda_kit::conclude_gradient_pass_kernel<>, 1, cuda_kit::concluding_threads, pass, to, partial, units);
  }
};

template <>
struct kernel<op::count_skipped, cuda> {
  static void forward(context<cuda>& ctx, const gradient_scalars* scalars, double* skipped, loss_scale_counts* counts) {
    launch(ctx, &cuda_kit::count_skipped_kernel<>, 1, 1, scalars, skipped, counts);
  }
};

template <>
struct kernel<op::count_missed, cuda> {
  static void forward(context<cuda>& ctx, const gradient_scalars* scalars, double* missed,
                      const std::vector<std::uint32_t>& which) {
    using table_type = cuda_kit::number_table;
    for (std::size_t done = 0; done < which.size();) {
      table_type table;
      while (done < which.size() && table.size < table_type::capacity) table.at[table.size++] = which[done++];
      launch(ctx, &cuda_kit::count_missed_kernel<>, 1, table_type::capacity, table, scalars, missed);
    }
  }
};

template <>
struct kernel<op::update_loss_scale, cuda> {
  static void forward(context<cuda>& ctx, const op::update_loss_scale& update, float* scale,
                      loss_scale_counts* counts) {
    launch(ctx, &cuda_kit::update_loss_scale_kernel<>, 1, 1, update, scale, counts);
  }
};

}  // namespace gradus
