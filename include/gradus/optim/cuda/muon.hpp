#pragma once
// The step of Muon on the GPU.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "../../core/math.hpp"
#include "../../cuda/gemm_cublaslt.hpp"
#include "../../cuda/rows.hpp"
#include "../muon.hpp"
#include "followed_step.hpp"
#include "gradient_pass.hpp"
#include "spans.hpp"

namespace gradus {

namespace cuda_kit {

inline constexpr unsigned muon_blocks = 256;  ///< at most

/// Updates the momentum, writes the direction to `to`, and each block's sum of its squares to `partial`.
template <class T, class G>
__global__ void __launch_bounds__(block_threads)
    muon_direction_kernel(matrix_span<T, G> t, followed_step<muon_options> known, float* to, double* partial) {
  const muon_options o = known.now().rule;
  const gradient_scaling<float> scaling(known.in);
  const float weight = static_cast<float>(1 - o.momentum), mix = static_cast<float>(o.nesterov ? o.momentum : 1.0);
  const bool skips = known.in.skips();
  double squares = 0;
  for_grid(t.size, [&](index_t i) {
    const float g = scaling(static_cast<float>(t.gradient[i])), before = t.momentum[i];
    const float m = before + weight * (g - before), u = g + mix * (m - g);
    if (!skips) t.momentum[i] = m;
    to[i] = skips ? 0.0f : u;
    squares += static_cast<double>(u) * static_cast<double>(u);
  });
  const double sum = row_sum<static_cast<int>(block_threads)>(squares);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}
/// Divides the direction by its norm.
template <class = void>
__global__ void __launch_bounds__(block_threads) muon_normalise_kernel(float* x, index_t size, const double* partial) {
  static_assert(muon_blocks == block_threads);
  const double squares = row_sum<static_cast<int>(block_threads)>(threadIdx.x < gridDim.x ? partial[threadIdx.x] : 0.0);
  const float by = static_cast<float>(1 / (math::sqrt(squares) + 1e-7));
  for_grid(size, [&](index_t i) { x[i] *= by; });
}
/// b = A I + B a + C b of side x side, with Muon's constants A, B and C.
template <class = void>
__global__ void __launch_bounds__(block_threads) muon_polynomial_kernel(float* b, const float* a, index_t side) {
  const index_t i = static_cast<index_t>(blockIdx.x) * block_threads + threadIdx.x;
  using step = op::muon_step;
  if (i < side * side) b[i] = step::b * a[i] + step::c * b[i] + (i / side == i % side ? step::a : 0.0f);
}
template <class T, class G>
__global__ void __launch_bounds__(block_threads)
    muon_step_kernel(matrix_span<T, G> t, followed_step<muon_options> known, const float* orthogonal) {
  if (known.in.skips()) return;
  const auto [rule, in] = known.now();
  const step_rates r = op::muon_step::rates(in.at(rule, t), t.rows, t.columns);
  const index_t i = static_cast<index_t>(blockIdx.x) * block_threads + threadIdx.x;
  if (i >= t.size) return;
  const float p = static_cast<float>(t.value[i]) * r.decay_factor - r.lr * orthogonal[i];
  write_value(t.value + i, p, in.rounds, in.key, t.first + i);
}

}  // namespace cuda_kit

/// Updates one matrix after another, with products in float. A skipped step computes the same and writes nothing.
template <>
struct kernel<op::muon_step, cuda> {
  template <class T, class G>
  static void forward(context<cuda>& ctx, const op::muon_step& step, const std::vector<matrix_span<T, G>>& spans,
                      const step_inputs& in, float* room) {
    using namespace cuda_kit;
    const auto known = follow(ctx, step.options, in);
    for (const matrix_span<T, G>& t : spans) {
      float* const x = room;
      double* const partial = scratch<double>(ctx, muon_blocks);
      const unsigned blocks = std::min(muon_blocks, blocks_for(t.size));
      launch(ctx, &muon_direction_kernel<T, G>, blocks, block_threads, t, known, x, partial);
      launch(ctx, &muon_normalise_kernel<>, blocks, block_threads, x, t.size, partial);
      const float* const orthogonal = iterated(ctx, t.rows, t.columns, x);
      launch(ctx, &muon_step_kernel<T, G>, blocks_for(t.size), block_threads, t, known, orthogonal);
    }
  }

 private:
  // The Newton-Schulz iteration, as on the CPU.
  static const float* iterated(context<cuda>& ctx, index_t rows, index_t columns, float* x) {
    auto& products = ctx.get<cuda_kit::float_products>();
    const bool wide = rows <= columns;
    const index_t side = std::min(rows, columns), n = rows * columns;
    constexpr auto part = &op::muon_step::part;
    float *y = x + part(n), *const a = y + part(n), *const b = a + part(side * side);
    for (int i = 0; i < op::muon_step::iterations; ++i) {
      products.multiply(ctx, !wide, wide, side, side, std::max(rows, columns), x, x, a);
      products.multiply(ctx, false, false, side, side, side, a, a, b);
      launch(ctx, &cuda_kit::muon_polynomial_kernel<>, cuda_kit::blocks_for(side * side), cuda_kit::block_threads, b, a,
             side);
      if (wide) products.multiply(ctx, false, false, rows, columns, rows, b, x, y);
      else products.multiply(ctx, false, false, rows, columns, columns, x, b, y);
      std::swap(x, y);
    }
    return x;
  }
};

}  // namespace gradus
