#pragma once
// The step of Muon on the CPU.

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "../../core/config.hpp"
#include "../../cpu/gemm.hpp"
#include "../../cpu/simd_math.hpp"
#include "../muon.hpp"
#include "gradient_pass.hpp"
#include "spans.hpp"

namespace gradus {

template <>
struct kernel<op::muon_step, cpu> {
  template <class T, class G>
  static void forward(context<cpu>& ctx, const op::muon_step& step, const std::vector<matrix_span<T, G>>& spans,
                      const step_inputs& in, void* scratch) {
    if (in.skips()) return;
    const muon_options& o = step.options;
    for (const matrix_span<T, G>& t : spans) {
      const step_rates r = op::muon_step::rates(in.at(o, t), t.rows, t.columns);
      float* const x = static_cast<float*>(scratch);
      scale(ctx, x, t.size, 1 / (std::sqrt(direction(ctx, o, t, in, x, x + t.size)) + 1e-7));
      const float* const orthogonal = iterated(ctx, t.rows, t.columns, x);
      cpu_kit::parallel_elements(ctx, t.size, cpu_kit::span_chunk, [&](index_t begin, index_t end) {
        cpu_kit::value_writer writer(in);
        cpu_kit::for_packs<float>(end - begin, [&](index_t k, auto n) {
          const index_t i = begin + k;
          const P p = cpu_kit::load<float>(t.value + i, n) * P(r.decay_factor) -
                      P(r.lr) * cpu_kit::load<float>(orthogonal + i, n);
          writer.write(p, t.value + i, n, t.draw + i);
        });
      });
    }
  }

 private:
  using P = pack<float>;

  // Updates the momentum and writes the direction to `to`. Returns the sum of its squares.
  template <class T, class G>
  static double direction(context<cpu>& ctx, const muon_options& o, const matrix_span<T, G>& t, const step_inputs& in,
                          float* to, float* partial) {
    const gradient_scaling<float> scaling(in);
    const P one_minus_momentum(1 - o.momentum), nesterov(o.nesterov ? o.momentum : 1.0);
    constexpr index_t grain = index_t{1} << 14;
    cpu_kit::parallel_ranges(ctx, t.size, grain, [&](index_t begin, index_t end) {
      P squares(0);
      cpu_kit::for_packs<float>(end - begin, [&](index_t k, auto n) {
        const index_t i = begin + k;
        const P g = scaling(cpu_kit::load<float>(t.gradient + i, n)), before = cpu_kit::load<float>(t.momentum + i, n);
        const P m = before + one_minus_momentum * (g - before), u = g + nesterov * (m - g);
        cpu_kit::store(m, t.momentum + i, n);
        cpu_kit::store(u, to + i, n);
        squares = squares + cpu_kit::inside_or(u * u, 0.0f, n);
      });
      partial[begin / grain] = sum_lanes(squares);
    });
    return cpu_kit::sum_in_order(partial, (t.size + grain - 1) / grain);
  }
  template <class C>
  static void scale(context<cpu>& ctx, C* x, index_t n, double factor) {
    const P by(factor);
    cpu_kit::parallel_elements(ctx, n, cpu_kit::span_chunk, [&](index_t begin, index_t end) {
      cpu_kit::for_packs<C>(end - begin, [&](index_t i, auto which) {
        cpu_kit::store(by * cpu_kit::load<C>(x + begin + i, which), x + begin + i, which);
      });
    });
  }
  // The Newton-Schulz iteration x = a x + (b A + c A A) x with A = x x^T, or A = x^T x where that is smaller. Returns
  // the address of the result.
  template <class C>
  static const C* iterated(context<cpu>& ctx, index_t rows, index_t columns, C* x) {
    const bool wide = rows <= columns;
    const index_t side = std::min(rows, columns), n = rows * columns;
    C *y = x + n, *const a = y + n, *const b = a + side * side;
    for (int i = 0; i < op::muon_step::iterations; ++i) {
      cpu_kit::gemm<C>(ctx, !wide, wide, side, side, std::max(rows, columns), x, columns, x, columns, false, a, side);
      cpu_kit::gemm<C>(ctx, false, false, side, side, side, a, side, a, side, false, b, side);
      cpu_kit::parallel_elements(
          ctx, side, std::max<index_t>(1, cpu_kit::span_chunk / side), [&](index_t begin, index_t end) {
            for (index_t r = begin; r < end; ++r) {
              cpu_kit::for_packs<C>(side, [&](index_t j, auto which) {
                C* at = b + r * side + j;
                const P first = cpu_kit::load<C>(a + r * side + j, which);
                cpu_kit::store(P(op::muon_step::b) * first + P(op::muon_step::c) * cpu_kit::load<C>(at, which), at,
                               which);
              });
              b[r * side + r] += op::muon_step::a;
            }
          });
      if (wide) cpu_kit::gemm<C>(ctx, false, false, rows, columns, rows, b, rows, x, columns, false, y, columns);
      else cpu_kit::gemm<C>(ctx, false, false, rows, columns, columns, x, columns, b, columns, false, y, columns);
      std::swap(x, y);
    }
    return x;
  }
};

}  // namespace gradus
