#pragma once
// The norm and finiteness of all gradients, and the counters that steps keep, on the CPU.

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "../../core/config.hpp"
#include "../../cpu/simd_math.hpp"
#include "spans.hpp"

namespace gradus {

template <>
struct kernel<op::gradient_pass, cpu> {
  template <class Span>
  static void forward(context<cpu>& ctx, const op::gradient_pass& pass, const gradient_scalars* so_far, double* partial,
                      index_t units, const std::vector<Span>& spans) {
    using C = compute_type<std::remove_cvref_t<decltype(*spans[0].gradient)>>;
    using P = pack<C>;
    static_assert(cpu_kit::span_chunk % piece_unit == 0);
    const P factor(pass.early_factor(*so_far)), high(pass.limit), low(-pass.limit), zero(0);
    cpu_kit::parallel_spans(ctx, spans, [&](const Span& s, index_t first_entry, index_t last_entry) {
      cpu_kit::for_runs(s, first_entry, last_entry, [&](index_t begin, index_t chunk_end) {
        for (; begin < chunk_end; begin += piece_unit) {
          const index_t end = std::min(begin + piece_unit, chunk_end);
          constexpr index_t run = 64 * lanes<C>;  // short float sums, accumulated in double
          double sum = 0;
          P bad(0);
          for (index_t i = begin; i < end; i += run) {
            P squares(0);
            cpu_kit::for_packs<C>(std::min(end - i, run), [&](index_t k, auto n) {
              const P raw = cpu_kit::load<C>(s.gradient + i + k, n), scaled = raw * factor;
              const P g = select(scaled > high, high, select(scaled < low, low, scaled));
              squares = squares + g * g;
              bad = bad + raw * zero;  // NaN for infinities, too
            });
            sum += static_cast<double>(sum_lanes(squares));
          }
          double* const at = partial + s.unit + begin / piece_unit;
          at[0] = sum;
          at[units] = static_cast<double>(sum_lanes(bad));
        }
      });
    });
  }
  static void conclude(context<cpu>&, const op::gradient_pass& pass, gradient_scalars* to, const double* partial,
                       index_t units) {
    pass.conclude(*to, cpu_kit::sum_in_order(partial, units), cpu_kit::sum_in_order(partial + units, units));
  }
};

template <>
struct kernel<op::count_skipped, cpu> {
  static void forward(context<cpu>&, const gradient_scalars* scalars, double* skipped, loss_scale_counts* counts) {
    if (scalars->found_inf == 0) return;
    *skipped += 1;
    counts->found_inf = 1;
  }
};

template <>
struct kernel<op::count_missed, cpu> {
  static void forward(context<cpu>&, const gradient_scalars* scalars, double* missed,
                      const std::vector<std::uint32_t>& which) {
    if (scalars != nullptr && scalars->found_inf != 0) return;
    for (const std::uint32_t i : which) missed[i] += 1;
  }
};

template <>
struct kernel<op::update_loss_scale, cpu> {
  static void forward(context<cpu>&, const op::update_loss_scale& update, float* scale, loss_scale_counts* counts) {
    update(*scale, *counts);
  }
};

}  // namespace gradus
