#pragma once
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

namespace gradus {

namespace cuda_kit {

inline constexpr unsigned muon_blocks = 256;  ///< at most

/// Brings the momentum up to date and leaves the direction in `to`, and the sums of its squares in partial, one a
/// block.
template <class T, class G>
__global__ void __launch_bounds__(block_threads)
    muon_direction_kernel(matrix_span<T, G> t, followed_step<muon_options> known, float* to, double* partial) {
  const muon_options o = known.now().rule;
  const gradient_scaling<float> scaling(known.in);
  const float weight = static_cast<float>(1 - o.momentum), mix = static_cast<float>(o.nesterov ? o.momentum : 1.0);
  const bool skips = known.in.skips();
  double squares = 0;
  for (index_t i = static_cast<index_t>(blockIdx.x) * block_threads + threadIdx.x; i < t.size;
       i += static_cast<index_t>(gridDim.x) * block_threads) {
    const float g = scaling(static_cast<float>(t.gradient[i])), before = t.momentum[i];
    const float m = before + weight * (g - before), u = g + mix * (m - g);
    if (!skips) t.momentum[i] = m;
    to[i] = skips ? 0.0f : u;
    squares += static_cast<double>(u) * static_cast<double>(u);
  }
  const double sum = row_sum<static_cast<int>(block_threads)>(squares);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}
/// Divides the direction by its norm.
template <class = void>
__global__ void __launch_bounds__(block_threads) muon_normalise_kernel(float* x, index_t size, const double* partial) {
  static_assert(muon_blocks == block_threads);
  const double squares = row_sum<static_cast<int>(block_threads)>(threadIdx.x < gridDim.x ? partial[threadIdx.x] : 0.0);
  const float by = static_cast<float>(1 / (math::sqrt(squares) + 1e-7));
  for (index_t i = static_cast<index_t>(blockIdx.x) * block_threads + threadIdx.x; i < size;
       i += static_cast<index_t>(gridDim.x) * block_threads)
    x[i] *= by;
}
/// b = 3.4445 I - 4.7750 a + 2.0315 b, of side x side.
template <class = void>
__global__ void __launch_bounds__(block_threads) muon_polynomial_kernel(float* b, const float* a, index_t side) {
  const index_t i = static_cast<index_t>(blockIdx.x) * block_threads + threadIdx.x;
  if (i < side * side) b[i] = -4.7750f * a[i] + 2.0315f * b[i] + (i / side == i % side ? 3.4445f : 0.0f);
}
template <class T, class G>
__global__ void __launch_bounds__(block_threads)
    muon_step_kernel(matrix_span<T, G> t, followed_step<muon_options> known, const float* orthogonal) {
  if (known.in.skips()) return;
  const auto [rule, in] = known.now();
  const tensor_step s = in.at(rule, t);
  const double longer = fmax(1.0, static_cast<double>(t.columns) / static_cast<double>(t.rows));
  const float by = static_cast<float>(s.lr * math::sqrt(longer)), keep = static_cast<float>(1 - s.lr * s.weight_decay);
  const index_t i = static_cast<index_t>(blockIdx.x) * block_threads + threadIdx.x;
  if (i >= t.size) return;
  const float p = static_cast<float>(t.value[i]) * keep - by * orthogonal[i];
  t.value[i] = convert_element<T>(p);
  if constexpr (std::is_same_v<T, bf16>)
    if (in.rounds == rounding::stochastic)
      t.value[i] = round_stochastically(p, in.key.words((t.first + i) / 8), (t.first + i) % 8);
}

}  // namespace cuda_kit

/// Matrix by matrix; products in float. A step that is skipped does the work all the same, and changes nothing.
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
  // Newton and Schulz's iteration, as on the CPU.
  static const float* iterated(context<cuda>& ctx, index_t rows, index_t columns, float* x) {
    auto& products = ctx.get<cuda_kit::float_products>();
    const bool wide = rows <= columns;
    const index_t side = std::min(rows, columns), n = rows * columns;
    constexpr auto part = &op::muon_step::part;
    float *y = x + part(n), *const a = y + part(n), *const b = a + part(side * side);
    for (int i = 0; i < 5; ++i) {
      products.multiply(ctx, !wide, wide, side, side, std::max(rows, columns), x, x, a);
      products.multiply(ctx, false, false, side, side, side, a, a, b);
      cuda_kit::launch(ctx, &cuda_kit::muon_polynomial_kernel<>, cuda_kit::blocks_for(side * side),
                       cuda_kit::block_threads, b, a, side);
      if (wide) products.multiply(ctx, false, false, rows, columns, rows, b, x, y);
      else products.multiply(ctx, false, false, rows, columns, columns, x, b, y);
      std::swap(x, y);
    }
    return x;
  }
};

}  // namespace gradus
