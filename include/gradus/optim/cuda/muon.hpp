#pragma once
// The step of Muon on the GPU, with the iteration in bf16.

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "../../core/math.hpp"
#include "../../gpu/gemm_cublaslt.hpp"
#include "../../gpu/rows.hpp"
#include "../muon.hpp"
#include "followed_step.hpp"
#include "gradient_pass.hpp"
#include "spans.hpp"

namespace gradus {

namespace cuda_kit {

inline constexpr unsigned muon_blocks = 256;            ///< the largest number of blocks for a matrix
inline constexpr int muon_width = vector_width<float>;  ///< elements of a run; padded rows have whole runs

/// Matrices of equal shape. Blocks (i, j) of a kernel update matrix j.
template <class T, class G>
struct matrix_batch {
  matrix_span<T, G> at[op::muon_step::most_in_batch];
};

/// Calls body(whole, at, in_padded, n) for each run of a matrix with padded rows: from its element `in_padded` on, the
/// first n elements of the run are the matrix's elements from `at` on. `whole` is true_type if they are all, and
/// `vectors` says that its addresses are aligned for them.
template <class Body>
__device__ inline void for_padded_runs(index_t rows, index_t columns, bool vectors, const Body& body) {
  const index_t runs = op::muon_step::padded(columns) / muon_width;
  for_grid(op::muon_step::padded(rows) * runs, [&](index_t i) {
    const index_t row = i / runs, column = i % runs * muon_width;
    const index_t inside = row < rows && column < columns ? columns - column : 0;
    const int n = inside < muon_width ? static_cast<int>(inside) : muon_width;
    if (vectors && n == muon_width) body(std::true_type{}, row * columns + column, i * muon_width, n);
    else body(std::false_type{}, row * columns + column, i * muon_width, n);
  });
}

/// The momentum, and the direction of a step.
struct muon_direction {
  gradient_scaling<float> scaling;
  float weight, mix;

  __device__ explicit muon_direction(const followed_step<muon_options>& known) : scaling(known.in) {
    const muon_options o = known.now().rule;
    weight = static_cast<float>(1 - o.momentum), mix = static_cast<float>(o.nesterov ? o.momentum : 1.0);
  }
  __device__ float momentum(float gradient, float before) const { return before + weight * (gradient - before); }
  __device__ float operator()(float gradient, float momentum) const { return gradient + mix * (momentum - gradient); }
};

/// Updates the momentum, and writes each block's sum of the squares of the direction to `partial`.
template <class T, class G>
__global__ void __launch_bounds__(block_threads)
    muon_momentum_kernel(const __grid_constant__ matrix_batch<T, G> batch,
                         const __grid_constant__ followed_step<muon_options> known, double* partial) {
  if (known.in.skips()) return;
  const matrix_span<T, G>& t = batch.at[blockIdx.y];
  const muon_direction direction(known);
  double squares = 0;
  const bool vectors =
      t.columns % muon_width == 0 && aligned<muon_width>(t.gradient) && aligned<muon_width>(t.momentum);
  for_padded_runs(t.rows, t.columns, vectors, [&](auto whole, index_t at, index_t, int n) {
    constexpr bool all = decltype(whole)::value;
    const auto g = load<muon_width, all>(t.gradient + at, n);
    auto m = load<muon_width, all>(t.momentum + at, n);
#pragma unroll
    for (int k = 0; k < muon_width; ++k) {
      const float scaled = direction.scaling(static_cast<float>(g.at[k]));
      m.at[k] = direction.momentum(scaled, m.at[k]);
      const auto u = static_cast<double>(direction(scaled, m.at[k]));
      squares += k < n ? u * u : 0.0;
    }
    store<muon_width, all>(t.momentum + at, m, n);
  });
  const double sum = row_sum<static_cast<int>(block_threads)>(squares);
  if (threadIdx.x == 0) partial[blockIdx.y * gridDim.x + blockIdx.x] = sum;
}
/// Writes the directions, divided by their norms, to x, with zeros where rows and columns are padded; zeros only if the
/// step is skipped.
template <class T, class G>
__global__ void __launch_bounds__(block_threads)
    muon_normalise_kernel(const __grid_constant__ matrix_batch<T, G> batch,
                          const __grid_constant__ followed_step<muon_options> known, const double* partial, bf16* x) {
  static_assert(muon_blocks == block_threads);
  const matrix_span<T, G>& t = batch.at[blockIdx.y];
  const bool skips = known.in.skips();
  const double squares = row_sum<static_cast<int>(block_threads)>(
      !skips && threadIdx.x < gridDim.x ? partial[blockIdx.y * gridDim.x + threadIdx.x] : 0.0);
  const float by = static_cast<float>(1 / (math::sqrt(squares) + 1e-7));
  const muon_direction direction(known);
  bf16* const to = x + blockIdx.y * op::muon_step::padded(t.rows) * op::muon_step::padded(t.columns);
  const bool vectors =
      t.columns % muon_width == 0 && aligned<muon_width>(t.gradient) && aligned<muon_width>(t.momentum);
  for_padded_runs(t.rows, t.columns, vectors, [&](auto whole, index_t at, index_t in_padded, int n) {
    constexpr bool all = decltype(whole)::value;
    const auto g = load<muon_width, all>(t.gradient + at, n);
    const auto m = load<muon_width, all>(t.momentum + at, n);
    vector_of<bf16, muon_width> u;
#pragma unroll
    for (int k = 0; k < muon_width; ++k)
      u.at[k] = bf16(skips || k >= n ? 0.0f : by * direction(direction.scaling(static_cast<float>(g.at[k])), m.at[k]));
    store<muon_width, true>(to + in_padded, u, muon_width);
  });
}
/// Subtracts the orthogonal directions from the values.
template <class T, class G>
__global__ void __launch_bounds__(block_threads)
    muon_step_kernel(const __grid_constant__ matrix_batch<T, G> batch,
                     const __grid_constant__ followed_step<muon_options> known, const bf16* orthogonal) {
  if (known.in.skips()) return;
  const matrix_span<T, G>& t = batch.at[blockIdx.y];
  __shared__ step_rates r;
  if (threadIdx.x == 0) {
    const auto [rule, in] = known.now();
    r = op::muon_step::rates(in.at(rule, t), t.rows, t.columns);
  }
  __syncthreads();
  const random_key key = known.key();
  const bf16* const from = orthogonal + blockIdx.y * op::muon_step::padded(t.rows) * op::muon_step::padded(t.columns);
  for_padded_runs(t.rows, t.columns, t.columns % muon_width == 0 && aligned<muon_width>(t.value),
                  [&](auto whole, index_t at, index_t in_padded, int n) {
                    constexpr bool all = decltype(whole)::value;
                    const auto u = load<muon_width, true>(from + in_padded, muon_width);
                    auto p = load<muon_width, all>(t.value + at, n);
#pragma unroll
                    for (int k = 0; k < muon_width; ++k)
                      write_value(&p.at[k],
                                  static_cast<float>(p.at[k]) * r.decay_factor - r.lr * static_cast<float>(u.at[k]),
                                  known.in.rounds, key, t.draw + at + static_cast<index_t>(k));
                    store<muon_width, all>(t.value + at, p, n);
                  });
}

}  // namespace cuda_kit

/// Updates matrices of equal shape together, with products in bf16. A skipped step computes zeros and writes nothing.
template <>
struct kernel<op::muon_step, cuda> {
  template <class T, class G>
  static void forward(context<cuda>& ctx, const op::muon_step& step, const std::vector<matrix_span<T, G>>& spans,
                      const step_inputs& in, void* room) {
    using namespace cuda_kit;
    const auto known = follow(ctx, step.options, in);
    for (std::size_t done = 0; done < spans.size();) {
      const index_t rows = spans[done].rows, columns = spans[done].columns;
      const index_t most = op::muon_step::batch<cuda>(rows, columns, spans.size() - done);
      matrix_batch<T, G> batch{};
      unsigned count = 0;
      for (; count < most && done < spans.size() && spans[done].rows == rows && spans[done].columns == columns; ++done)
        batch.at[count++] = spans[done];
      const index_t padded_rows = op::muon_step::padded(rows), padded_columns = op::muon_step::padded(columns);
      const dim3 blocks(std::min(muon_blocks, flat_blocks(padded_rows * padded_columns, muon_width)), count);
      double* const partial = scratch<double>(ctx, blocks.x * count);
      const auto x = static_cast<bf16*>(room);
      launch(ctx, &muon_momentum_kernel<T, G>, blocks, block_threads, batch, known, partial);
      launch(ctx, &muon_normalise_kernel<T, G>, blocks, block_threads, batch, known, partial, x);
      const bf16* const orthogonal = iterated(ctx, padded_rows, padded_columns, count, x);
      launch(ctx, &muon_step_kernel<T, G>, blocks, block_threads, batch, known, orthogonal);
    }
  }

 private:
  // The Newton-Schulz iteration x = A x + (B a + C a a) x with a = x x^T, or a = x^T x where that is smaller. Returns
  // the address of the results.
  static const bf16* iterated(context<cuda>& ctx, index_t rows, index_t columns, index_t count, bf16* x) {
    using step = op::muon_step;
    const bool wide = rows <= columns;
    const index_t side = std::min(rows, columns), n = count * rows * columns;
    bf16 *y = x + n, *const b = y + n;
    for (int i = 0; i < step::iterations; ++i) {
      bf16* const a = y;  // until y is written
      cuda_kit::multiply(ctx, {!wide, wide, side, side, std::max(rows, columns), count}, x, x, a);
      cuda_kit::multiply(ctx, {false, false, side, side, side, count}, a, a, b, step::c, step::b, a);
      cuda_kit::multiply(ctx, {false, false, rows, columns, side, count}, wide ? b : x, wide ? x : b, y, 1, step::a, x);
      std::swap(x, y);
    }
    return x;
  }
};

}  // namespace gradus
