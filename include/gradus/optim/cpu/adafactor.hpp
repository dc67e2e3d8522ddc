#pragma once
// The step of Adafactor on the CPU.

#include <algorithm>
#include <cmath>
#include <vector>

#include "../../core/config.hpp"
#include "../../cpu/simd_math.hpp"
#include "../adafactor.hpp"
#include "gradient_pass.hpp"
#include "spans.hpp"

namespace gradus {

/// Updates one tensor after another. It cuts a matrix into parts of rows and a vector into parts of elements, by size
/// alone, and adds the sums of parts in order: any number of threads gives the same bits.
template <>
struct kernel<op::adafactor_step, cpu> {
  template <class T, class G>
  static void forward(context<cpu>& ctx, const op::adafactor_step& step, const std::vector<factored_span<T, G>>& spans,
                      const step_inputs& in, double* scratch) {
    if (in.skips()) return;
    for (const factored_span<T, G>& t : spans) tensor_step_of(ctx, step.options, t, in, scratch);
  }

 private:
  using P = pack<float>;
  static constexpr index_t most = op::adafactor_step::most_parts;

  // The inputs of all passes over one tensor.
  template <class T, class G>
  struct work {
    const factored_span<T, G>& t;
    const step_inputs& in;
    gradient_scaling<float> scaling;
    float beta, eps, beta1, one_minus_beta1;

    template <class Which>
    GRADUS_INLINE P gradient(index_t i, Which n) const {
      return scaling(cpu_kit::load<float>(t.gradient + i, n));
    }
    GRADUS_INLINE P averaged(P so_far, P now) const { return P(beta) * so_far + P(1 - beta) * now; }
    // Applies the update u to the elements from i on.
    template <class Which>
    GRADUS_INLINE void take(index_t i, P u, const step_rates& r, Which n, cpu_kit::value_writer& writer) const {
      u = u * P(r.lr);
      if (t.update != nullptr) {
        u = P(beta1) * cpu_kit::load<float>(t.update + i, n) + P(one_minus_beta1) * u;
        cpu_kit::store(u, t.update + i, n);
      }
      writer.write(cpu_kit::load<float>(t.value + i, n) * P(r.decay_factor) - u, t.value + i, n, t.draw + i);
    }
  };

  // Runs f(begin, end, part) on parts of n rows of `size` elements; returns the number of parts.
  template <class F>
  static index_t in_parts(context<cpu>& ctx, index_t n, index_t size, const F& f) {
    const index_t grain = std::max<index_t>({1, (n + most - 1) / most, (index_t{1} << 14) / size});
    cpu_kit::parallel_ranges(ctx, n, grain, [&](index_t begin, index_t end) { f(begin, end, begin / grain); });
    return (n + grain - 1) / grain;
  }
  // Adds up f(i, which) in short runs of float, and those in double.
  template <class F>
  static double sum_of(index_t n, const F& f) {
    constexpr index_t run = 64 * lanes<float>;
    double all = 0;
    for (index_t i = 0; i < n; i += run) {
      P sum(0);
      cpu_kit::for_packs<float>(std::min(n - i, run), [&](index_t k, auto which) {
        sum = sum + cpu_kit::inside_or(f(i + k, which), 0.0f, which);
      });
      all += static_cast<double>(sum_lanes(sum));
    }
    return all;
  }
  template <class T, class G>
  static void tensor_step_of(context<cpu>& ctx, const adafactor_options& o, const factored_span<T, G>& t,
                             const step_inputs& in, double* scratch) {
    const tensor_step s = in.at(o.rule(), t);
    const work<T, G> w{t,
                       in,
                       gradient_scaling<float>(in),
                       static_cast<float>(1 - std::pow(s.t, o.decay_rate)),
                       static_cast<float>(o.eps1),
                       static_cast<float>(o.beta1),
                       static_cast<float>(1 - o.beta1)};
    if (t.rows == 0) step_of_vector(ctx, o, w, s, scratch);
    else step_of_matrices(ctx, o, w, s, scratch);
  }

  template <class T, class G>
  static void step_of_vector(context<cpu>& ctx, const adafactor_options& o, const work<T, G>& w, const tensor_step& s,
                             double* scratch) {
    const auto& t = w.t;
    const index_t parts = in_parts(ctx, t.size, 1, [&](index_t begin, index_t end, index_t part) {
      scratch[part] = sum_of(end - begin, [&](index_t i, auto n) {
        const P p = cpu_kit::load<float>(t.value + begin + i, n);
        return p * p;
      });
      scratch[most + part] = sum_of(end - begin, [&](index_t k, auto n) {
        const index_t i = begin + k;
        const P g = w.gradient(i, n);
        const P v = w.averaged(cpu_kit::load<float>(t.row_means + i, n), g * g + P(w.eps));
        cpu_kit::store(v, t.row_means + i, n);
        return g * g / v;
      });
    });
    const step_rates r =
        o.rates(s, t.size, cpu_kit::sum_in_order(scratch, parts), cpu_kit::sum_in_order(scratch + most, parts));
    in_parts(ctx, t.size, 1, [&](index_t begin, index_t end, index_t) {
      cpu_kit::value_writer writer(w.in);
      cpu_kit::for_packs<float>(end - begin, [&](index_t k, auto n) {
        const index_t i = begin + k;
        w.take(i, w.gradient(i, n) / sqrt(cpu_kit::load<float>(t.row_means + i, n)), r, n, writer);
      });
    });
  }

  template <class T, class G>
  static void step_of_matrices(context<cpu>& ctx, const adafactor_options& o, const work<T, G>& w, const tensor_step& s,
                               double* scratch) {
    const auto& t = w.t;
    double* const sum_values = scratch;
    double* const sum_updates = scratch + most;
    auto* const column_sums = reinterpret_cast<float*>(scratch + 3 * most);  // of each part
    auto* const column_factors = reinterpret_cast<float*>(scratch + most * (t.columns + 3));
    double values = 0, updates = 0;  // sums of squares
    for (index_t matrix = 0; matrix < t.matrices; ++matrix) {
      const index_t first = matrix * t.rows * t.columns;
      float* const means = t.row_means + matrix * t.rows;
      const index_t parts = in_parts(ctx, t.rows, t.columns, [&](index_t begin, index_t end, index_t part) {
        float* const columns = column_sums + part * t.columns;
        std::fill_n(columns, t.columns, 0.0f);
        sum_values[part] = 0;
        for (index_t row = begin; row < end; ++row) {
          const index_t at = first + row * t.columns;
          const double squares = sum_of(t.columns, [&](index_t j, auto n) {
            const P g = w.gradient(at + j, n), u = g * g + P(w.eps);
            cpu_kit::store(cpu_kit::load<float>(columns + j, n) + u, columns + j, n);
            return u;
          });
          means[row] =
              w.beta * means[row] + (1 - w.beta) * static_cast<float>(squares / static_cast<double>(t.columns));
          sum_values[part] += sum_of(t.columns, [&](index_t j, auto n) {
            const P p = cpu_kit::load<float>(t.value + at + j, n);
            return p * p;
          });
        }
      });
      float* const averages = t.column_means + matrix * t.columns;
      for (index_t j = 0; j < t.columns; ++j) {
        double all = 0;
        for (index_t part = 0; part < parts; ++part) all += static_cast<double>(column_sums[part * t.columns + j]);
        averages[j] = w.beta * averages[j] + (1 - w.beta) * static_cast<float>(all / static_cast<double>(t.rows));
      }
      values += cpu_kit::sum_in_order(sum_values, parts);
      const double mean = factors_of_columns(t, matrix, column_factors);
      in_parts(ctx, t.rows, t.columns, [&](index_t begin, index_t end, index_t part) {
        sum_updates[part] = 0;
        for (index_t row = begin; row < end; ++row)
          sum_updates[part] += sum_of(t.columns, [&](index_t j, auto n) {
            const P u = update(w, first + row * t.columns, j, row_factor(means[row], mean), column_factors, n);
            return u * u;
          });
      });
      updates += cpu_kit::sum_in_order(sum_updates, parts);
    }
    const step_rates r = o.rates(s, t.size, values, updates);
    for (index_t matrix = 0; matrix < t.matrices; ++matrix) {
      const index_t first = matrix * t.rows * t.columns;
      const double mean = factors_of_columns(t, matrix, column_factors);
      in_parts(ctx, t.rows, t.columns, [&](index_t begin, index_t end, index_t) {
        cpu_kit::value_writer writer(w.in);
        for (index_t row = begin; row < end; ++row) {
          const index_t at = first + row * t.columns;
          const float factor = row_factor(t.row_means[matrix * t.rows + row], mean);
          cpu_kit::for_packs<float>(t.columns, [&](index_t j, auto n) {
            w.take(at + j, update(w, at, j, factor, column_factors, n), r, n, writer);
          });
        }
      });
    }
  }
  // Writes 1 / sqrt(C) of each column; returns the mean of R.
  template <class T, class G>
  static double factors_of_columns(const factored_span<T, G>& t, index_t matrix, float* factors) {
    const float* averages = t.column_means + matrix * t.columns;
    for (index_t j = 0; j < t.columns; ++j) factors[j] = 1 / std::sqrt(averages[j]);
    double mean = 0;
    for (index_t row = 0; row < t.rows; ++row) mean += static_cast<double>(t.row_means[matrix * t.rows + row]);
    return mean / static_cast<double>(t.rows);
  }
  static float row_factor(float average, double mean) {
    return static_cast<float>(1 / std::sqrt(static_cast<double>(average) / mean));
  }
  template <class T, class G, class Which>
  GRADUS_INLINE static P update(const work<T, G>& w, index_t row, index_t j, float row_factor,
                                const float* column_factors, Which n) {
    return w.gradient(row + j, n) * P(row_factor) * cpu_kit::load<float>(column_factors + j, n);
  }
};

}  // namespace gradus
