#pragma once
// The step of Adafactor on the GPU.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "../../core/math.hpp"
#include "../../gpu/rows.hpp"
#include "../../gpu/workspace.hpp"
#include "../adafactor.hpp"
#include "followed_step.hpp"
#include "gradient_pass.hpp"
#include "spans.hpp"

namespace gradus {

namespace cuda_kit {

/// What the passes over one tensor compute, on the GPU.
struct adafactor_numbers {
  double values, updates;  ///< sums of squares, over all matrices of the tensor
  double row_mean;         ///< of the row means of the current matrix
  float beta;              ///< decay of the means of squares
  step_rates rates;
};
inline constexpr int adafactor_blocks = 256;  ///< the most blocks of a pass that writes a partial sum for each

template <class T, class G>
struct adafactor_work {
  factored_span<T, G> t;
  followed_step<adafactor_options> step;
  adafactor_numbers* numbers;
  double* partial;      ///< two for each block
  double* column_sums;  ///< [row_chunks, columns]
  int blocks;           ///< of this tensor's passes
  index_t row_chunks;   ///< of the pass over columns
  index_t first;        ///< element of the current matrix
  float *row_means, *column_means;

  /// Reads the step's settings; false if the step is skipped. Each kernel calls it first.
  __device__ bool begins() {
    if (step.in.skips()) return false;
    const auto now = step.now();
    step.rule = now.rule, step.in = now.in;
    return true;
  }
  __device__ tensor_step now() const { return step.in.at(step.rule.rule(), t); }
  __device__ float square(const gradient_scaling<float>& scaling, index_t i) const {
    const float g = scaling(static_cast<float>(t.gradient[i]));
    return g * g;
  }
  /// Calls f(row) for each row of this block.
  template <class F>
  __device__ void for_rows(const F& f) const {
    for (index_t row = blockIdx.x; row < t.rows; row += gridDim.x) f(row);
  }
  __device__ void leave(double a, double b) const {
    a = row_sum<static_cast<int>(block_threads)>(a);
    b = row_sum<static_cast<int>(block_threads)>(b);
    if (threadIdx.x == 0) partial[blockIdx.x] = a, partial[adafactor_blocks + blockIdx.x] = b;
  }
};

template <class T, class G>
__global__ void adafactor_begin_kernel(adafactor_work<T, G> w) {
  if (!w.begins()) return;
  w.numbers->values = w.numbers->updates = 0;
  w.numbers->beta = static_cast<float>(1 - math::pow(w.now().t, w.step.rule.decay_rate));
}

/// Updates the row means, and adds up the squares of the values.
template <class T, class G>
__global__ void __launch_bounds__(block_threads) adafactor_rows_kernel(adafactor_work<T, G> w) {
  if (!w.begins()) return;
  const gradient_scaling<float> scaling(w.step.in);
  const float beta = w.numbers->beta;
  double values = 0;
  w.for_rows([&](index_t row) {
    double squares = 0;
    for (index_t j = threadIdx.x; j < w.t.columns; j += block_threads) {
      const index_t i = w.first + row * w.t.columns + j;
      squares += static_cast<double>(w.square(scaling, i) + static_cast<float>(w.step.rule.eps1));
      const double p = static_cast<double>(static_cast<float>(w.t.value[i]));
      values += p * p;
    }
    squares = row_sum<static_cast<int>(block_threads)>(squares);
    if (threadIdx.x == 0)
      w.row_means[row] =
          beta * w.row_means[row] + (1 - beta) * static_cast<float>(squares / static_cast<double>(w.t.columns));
  });
  w.leave(values, 0);
}
/// Chunks of rows that the pass over columns takes, so that a matrix makes some hundred blocks, of at least 128 rows
/// each.
constexpr index_t adafactor_row_chunks(index_t rows, index_t columns) {
  if (rows == 0) return 0;  // a vector
  const index_t strips = (columns + 31) / 32;
  return std::max<index_t>(1, std::min((rows + 127) / 128, (512 + strips - 1) / strips));
}
/// Sums over a chunk of the rows, of 32 columns a block; a warp takes a row at a time.
template <class T, class G>
__global__ void __launch_bounds__(1024) adafactor_column_sums_kernel(adafactor_work<T, G> w) {
  if (!w.begins()) return;
  __shared__ double sums[32][33];
  const gradient_scaling<float> scaling(w.step.in);
  const index_t j = static_cast<index_t>(blockIdx.x) * 32 + threadIdx.x % 32;
  const index_t chunk = blockIdx.y, each = (w.t.rows + w.row_chunks - 1) / w.row_chunks;
  const index_t end = (chunk + 1) * each < w.t.rows ? (chunk + 1) * each : w.t.rows;
  double sum = 0;
  if (j < w.t.columns)
    for (index_t row = chunk * each + threadIdx.x / 32; row < end; row += 32)
      sum += static_cast<double>(w.square(scaling, w.first + row * w.t.columns + j) +
                                 static_cast<float>(w.step.rule.eps1));
  sums[threadIdx.x / 32][threadIdx.x % 32] = sum;
  __syncthreads();
  if (threadIdx.x >= 32 || j >= w.t.columns) return;
  double all = 0;
  for (int k = 0; k < 32; ++k) all += sums[k][threadIdx.x];
  w.column_sums[chunk * w.t.columns + j] = all;
}
/// Averages of the columns.
template <class T, class G>
__global__ void __launch_bounds__(block_threads) adafactor_columns_kernel(adafactor_work<T, G> w) {
  if (!w.begins()) return;
  const index_t j = static_cast<index_t>(blockIdx.x) * block_threads + threadIdx.x;
  if (j >= w.t.columns) return;
  double all = 0;
  for (index_t chunk = 0; chunk < w.row_chunks; ++chunk) all += w.column_sums[chunk * w.t.columns + j];
  const float beta = w.numbers->beta;
  w.column_means[j] = beta * w.column_means[j] + (1 - beta) * static_cast<float>(all / static_cast<double>(w.t.rows));
}
/// The mean of the rows' averages, and the sum of the values' squares.
template <class T, class G>
__global__ void __launch_bounds__(block_threads) adafactor_mean_kernel(adafactor_work<T, G> w) {
  if (!w.begins()) return;
  constexpr int threads = static_cast<int>(block_threads);
  double mean = 0, values = 0;
  for (index_t row = threadIdx.x; row < w.t.rows; row += block_threads) mean += static_cast<double>(w.row_means[row]);
  for (int b = static_cast<int>(threadIdx.x); b < w.blocks; b += threads) values += w.partial[b];
  mean = row_sum<threads>(mean);
  values = row_sum<threads>(values);
  if (threadIdx.x != 0) return;
  w.numbers->row_mean = mean / static_cast<double>(w.t.rows);
  w.numbers->values += values;
}

/// Update of element j of a row, before its rate.
template <class T, class G>
__device__ inline float adafactor_update(const adafactor_work<T, G>& w, const gradient_scaling<float>& scaling,
                                         index_t row, index_t j, float row_factor) {
  const float g = scaling(static_cast<float>(w.t.gradient[w.first + row * w.t.columns + j]));
  return g * row_factor * (1 / sqrtf(w.column_means[j]));
}
template <class T, class G>
__device__ inline float adafactor_row_factor(const adafactor_work<T, G>& w, index_t row) {
  return static_cast<float>(1 / math::sqrt(static_cast<double>(w.row_means[row]) / w.numbers->row_mean));
}
template <class T, class G>
__global__ void __launch_bounds__(block_threads) adafactor_updates_kernel(adafactor_work<T, G> w) {
  if (!w.begins()) return;
  const gradient_scaling<float> scaling(w.step.in);
  double updates = 0;
  w.for_rows([&](index_t row) {
    const float factor = adafactor_row_factor(w, row);
    for (index_t j = threadIdx.x; j < w.t.columns; j += block_threads) {
      const double u = static_cast<double>(adafactor_update(w, scaling, row, j, factor));
      updates += u * u;
    }
  });
  w.leave(0, updates);
}
/// Updates a vector's means, and adds up both sums of squares.
template <class T, class G>
__global__ void __launch_bounds__(block_threads) adafactor_vector_kernel(adafactor_work<T, G> w) {
  if (!w.begins()) return;
  const gradient_scaling<float> scaling(w.step.in);
  const float beta = w.numbers->beta;
  double values = 0, updates = 0;
  for_grid(w.t.size, [&](index_t i) {
    const float squared = w.square(scaling, i);
    const float v = beta * w.row_means[i] + (1 - beta) * (squared + static_cast<float>(w.step.rule.eps1));
    w.row_means[i] = v;
    updates += static_cast<double>(squared / v);
    const double p = static_cast<double>(static_cast<float>(w.t.value[i]));
    values += p * p;
  });
  w.leave(values, updates);
}
/// Adds up the blocks' sums of updates (and of a vector's values); `last`: then computes the rates.
template <class T, class G>
__global__ void __launch_bounds__(block_threads)
    adafactor_rates_kernel(adafactor_work<T, G> w, bool vector, bool last) {
  if (!w.begins()) return;
  constexpr int threads = static_cast<int>(block_threads);
  static_assert(adafactor_blocks == threads);
  const bool there = static_cast<int>(threadIdx.x) < w.blocks;
  const double values = row_sum<threads>(vector && there ? w.partial[threadIdx.x] : 0.0);
  const double updates = row_sum<threads>(there ? w.partial[adafactor_blocks + threadIdx.x] : 0.0);
  if (threadIdx.x != 0) return;
  adafactor_numbers& n = *w.numbers;
  n.values += values;
  n.updates += updates;
  if (!last) return;
  n.rates = w.step.rule.rates(w.now(), w.t.size, n.values, n.updates);
}
/// Updates the values.
template <class T, class G>
__global__ void __launch_bounds__(block_threads) adafactor_step_kernel(adafactor_work<T, G> w) {
  if (!w.begins()) return;
  const gradient_scaling<float> scaling(w.step.in);
  const step_rates r = w.numbers->rates;
  const auto take = [&](index_t i, float u) {
    u *= r.lr;
    if (w.t.update != nullptr) {
      u = static_cast<float>(w.step.rule.beta1) * w.t.update[i] + static_cast<float>(1 - w.step.rule.beta1) * u;
      w.t.update[i] = u;
    }
    const float p = static_cast<float>(w.t.value[i]) * r.decay_factor - u;
    write_value(w.t.value + i, p, w.step.in.rounds, w.step.in.key, w.t.draw + i);
  };
  if (w.t.rows == 0) {
    for_grid(w.t.size,
             [&](index_t i) { take(i, scaling(static_cast<float>(w.t.gradient[i])) / sqrtf(w.row_means[i])); });
  } else {
    w.for_rows([&](index_t row) {
      const float factor = adafactor_row_factor(w, row);
      for (index_t j = threadIdx.x; j < w.t.columns; j += block_threads)
        take(w.first + row * w.t.columns + j, adafactor_update(w, scaling, row, j, factor));
    });
  }
}

}  // namespace cuda_kit

/// Updates one tensor after another. The rates are computed on the GPU, so the host waits for nothing.
template <>
struct kernel<op::adafactor_step, cuda> {
  template <class T, class G>
  static void forward(context<cuda>& ctx, const op::adafactor_step& step, const std::vector<factored_span<T, G>>& spans,
                      const step_inputs& in, double*) {
    using namespace cuda_kit;
    index_t sums = 0;
    for (const factored_span<T, G>& t : spans)
      sums = std::max(sums, adafactor_row_chunks(t.rows, t.columns) * t.columns);
    const auto known = follow(ctx, step.options, in);
    double* const room = scratch<double>(ctx, 16 + 2 * adafactor_blocks + sums);
    for (const factored_span<T, G>& t : spans) {
      const auto blocks = static_cast<int>(
          std::min<index_t>(adafactor_blocks, t.rows == 0 ? (t.size + block_threads - 1) / block_threads : t.rows));
      adafactor_work<T, G> w{.t = t,
                             .step = known,
                             .numbers = reinterpret_cast<adafactor_numbers*>(room),
                             .partial = room + 16,
                             .column_sums = room + 16 + 2 * adafactor_blocks,
                             .blocks = blocks,
                             .row_chunks = adafactor_row_chunks(t.rows, t.columns),
                             .first = 0,
                             .row_means = t.row_means,
                             .column_means = t.column_means};
      const auto grid = static_cast<unsigned>(blocks);
      launch(ctx, &adafactor_begin_kernel<T, G>, 1, 1, w);
      if (t.rows == 0) {
        launch(ctx, &adafactor_vector_kernel<T, G>, grid, block_threads, w);
        launch(ctx, &adafactor_rates_kernel<T, G>, 1, block_threads, w, true, true);
        launch(ctx, &adafactor_step_kernel<T, G>, grid, block_threads, w);
        continue;
      }
      const auto at = [&](index_t matrix) {
        w.first = matrix * t.rows * t.columns;
        w.row_means = t.row_means + matrix * t.rows;
        w.column_means = t.column_means + matrix * t.columns;
      };
      for (index_t matrix = 0; matrix < t.matrices; ++matrix) {
        at(matrix);
        launch(ctx, &adafactor_rows_kernel<T, G>, grid, block_threads, w);
        launch(ctx, &adafactor_column_sums_kernel<T, G>,
               dim3(static_cast<unsigned>((t.columns + 31) / 32), static_cast<unsigned>(w.row_chunks)), 1024, w);
        launch(ctx, &adafactor_columns_kernel<T, G>, blocks_for(t.columns), block_threads, w);
        launch(ctx, &adafactor_mean_kernel<T, G>, 1, block_threads, w);
        launch(ctx, &adafactor_updates_kernel<T, G>, grid, block_threads, w);
        launch(ctx, &adafactor_rates_kernel<T, G>, 1, block_threads, w, false, matrix + 1 == t.matrices);
      }
      for (index_t matrix = 0; matrix < t.matrices; ++matrix) {
        at(matrix);
        if (t.matrices > 1) launch(ctx, &adafactor_mean_kernel<T, G>, 1, block_threads, w);
        launch(ctx, &adafactor_step_kernel<T, G>, grid, block_threads, w);
      }
    }
  }
};

}  // namespace gradus
