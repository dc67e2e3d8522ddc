#pragma once
#include <cmath>
#include <cstddef>
#include <vector>

#include "../core/config.hpp"
#include "../cpu/parallel.hpp"
#include "../cpu/simd_math.hpp"
#include "../cpu/vector_loop.hpp"
#include "adamw.hpp"
#include "sgd.hpp"

namespace gradus {

namespace cpu_kit::inline GRADUS_BUILD {

/// All spans cut into chunks of a fixed size, so that one parallel loop serves them, however many tensors there are.
inline constexpr index span_chunk = 1 << 15;
template <class T, class G>
index span_chunks(const std::vector<update_span<T, G>>& spans) {
  index chunks = 0;
  for (const auto& s : spans) chunks += (s.size + span_chunk - 1) / span_chunk;
  return chunks;
}
/// Runs f(span, begin, end) on a chunk.
template <class T, class G, class F>
void with_chunk(const std::vector<update_span<T, G>>& spans, index chunk, const F& f) {
  index i = 0;
  for (index here = 0; chunk >= (here = (spans[i].size + span_chunk - 1) / span_chunk); ++i) chunk -= here;
  f(spans[i], chunk * span_chunk, std::min(spans[i].size, (chunk + 1) * span_chunk));
}
template <class T, class G, class F>
void parallel_spans(context<cpu>& ctx, const std::vector<update_span<T, G>>& spans, const F& f) {
  parallel_tasks(ctx, span_chunks(spans), [&](index chunk) { with_chunk(spans, chunk, f); });
}

}  // namespace cpu_kit::inline GRADUS_BUILD

template <>
struct kernel<op::gradient_square_sum, cpu> {
  template <class T, class G>
  static void forward(context<cpu>& ctx, view<double, shape<>> out,
                      view<double, op::gradient_square_sum::partial_sums> partial,
                      const std::vector<update_span<T, G>>& spans) {
    using C = compute_type<G>;
    constexpr index most = op::gradient_square_sum::partial_sums::size;  // runs of chunks
    const index chunks = cpu_kit::span_chunks(spans);
    const index together = (chunks + most - 1) / most;
    cpu_kit::parallel_ranges(ctx, chunks, together == 0 ? 1 : together, [&](index first, index last) {
      double sum = 0;
      for (index chunk = first; chunk < last; ++chunk)
        cpu_kit::with_chunk(spans, chunk, [&](const update_span<T, G>& s, index begin, index end) {
          constexpr index run = 64 * lanes<C>;  // short float sums, gathered in double
          for (index i = begin; i < end; i += run) {
            pack<C> squares(0);
            cpu_kit::for_packs<C>(std::min(end - i, run), [&](index k, auto n) {
              const pack<C> g = cpu_kit::load<C>(s.gradient + i + k, n);
              squares = squares + g * g;
            });
            sum += static_cast<double>(sum_lanes(squares));
          }
        });
      partial[first / together] = sum;
    });
    double sum = 0;
    for (index i = 0; i * together < chunks; ++i) sum += partial[i];
    out[0] = sum;
  }
};

template <>
struct kernel<op::adamw_step, cpu> {
  template <class T, class G>
  static void forward(context<cpu>& ctx, const std::vector<update_span<T, G>>& spans, const adamw_scalars& s) {
    using C = compute_type<T>;
    using P = pack<C>;
    cpu_kit::parallel_spans(ctx, spans, [&](const update_span<T, G>& t, index begin, index end) {
      const P b1(s.beta1), b2(s.beta2), c1(1 - s.beta1), c2(1 - s.beta2), scale(s.gradient_scale), eps(s.eps);
      const P keep(1 - s.lr * static_cast<double>(t.weight_decay)), step(s.lr / s.correction1);
      const P root(1 / std::sqrt(s.correction2));
      cpu_kit::for_packs<C>(end - begin, [&](index k, auto n) {
        const index i = begin + k;
        const P g = cpu_kit::load<C>(t.gradient + i, n) * scale;
        const P m = b1 * cpu_kit::load<C>(t.moment1 + i, n) + c1 * g;
        const P v = b2 * cpu_kit::load<C>(t.moment2 + i, n) + c2 * g * g;
        const P p = cpu_kit::load<C>(t.value + i, n) * keep - step * m / (sqrt(v) * root + eps);
        cpu_kit::store(m, t.moment1 + i, n);
        cpu_kit::store(v, t.moment2 + i, n);
        cpu_kit::store(p, t.value + i, n);
      });
    });
  }
};

template <>
struct kernel<op::sgd_step, cpu> {
  template <class T, class G>
  static void forward(context<cpu>& ctx, const std::vector<update_span<T, G>>& spans, const sgd_scalars& s) {
    using C = compute_type<T>;
    using P = pack<C>;
    cpu_kit::parallel_spans(ctx, spans, [&](const update_span<T, G>& t, index begin, index end) {
      const P lr(s.lr), momentum(s.momentum), scale(s.gradient_scale), decay(t.weight_decay);
      cpu_kit::for_packs<C>(end - begin, [&](index k, auto n) {
        const index i = begin + k;
        const P p = cpu_kit::load<C>(t.value + i, n);
        P step = cpu_kit::load<C>(t.gradient + i, n) * scale + decay * p;
        if (t.moment1 != nullptr) {
          if (!s.first) step = momentum * cpu_kit::load<C>(t.moment1 + i, n) + step;
          cpu_kit::store(step, t.moment1 + i, n);
        }
        cpu_kit::store(p - lr * step, t.value + i, n);
      });
    });
  }
};

}  // namespace gradus
