#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "../core/config.hpp"
#include "../cpu/gemm.hpp"
#include "../cpu/parallel.hpp"
#include "../cpu/simd_math.hpp"
#include "../cpu/vector_loop.hpp"
#include "adafactor.hpp"
#include "adamw_8bit.hpp"
#include "element_optimizer.hpp"
#include "muon.hpp"
#include "weight_average.hpp"

namespace gradus {

namespace cpu_kit::inline GRADUS_BUILD {

/// All spans cut into chunks of a fixed size, so that one parallel loop serves them, however many tensors there are.
inline constexpr index span_chunk = 1 << 15;
template <class Span>
index span_chunks(const std::vector<Span>& spans) {
  index chunks = 0;
  for (const auto& s : spans) chunks += (s.size + span_chunk - 1) / span_chunk;
  return chunks;
}
/// Runs f(span, begin, end) on a chunk.
template <class Span, class F>
void with_chunk(const std::vector<Span>& spans, index chunk, const F& f) {
  index i = 0;
  for (index here = 0; chunk >= (here = (spans[i].size + span_chunk - 1) / span_chunk); ++i) chunk -= here;
  f(spans[i], chunk * span_chunk, std::min(spans[i].size, (chunk + 1) * span_chunk));
}
template <class Span, class F>
void parallel_spans(context<cpu>& ctx, const std::vector<Span>& spans, const F& f) {
  parallel_tasks(ctx, span_chunks(spans), [&](index chunk) { with_chunk(spans, chunk, f); });
}

}  // namespace cpu_kit::inline GRADUS_BUILD

template <>
struct kernel<op::gradient_pass, cpu> {
  template <class T, class G>
  static void forward(context<cpu>& ctx, const op::gradient_pass& pass, gradient_scalars* to,
                      view<double, op::gradient_pass::partial_sums> partial,
                      const std::vector<update_span<T, G>>& spans) {
    using C = compute_type<G>;
    using P = pack<C>;
    constexpr index most = op::gradient_pass::partial_sums::extent(-1);  // runs of chunks
    const index chunks = cpu_kit::span_chunks(spans);
    const index together = std::max<index>(1, (chunks + most - 1) / most);
    const P factor(pass.early_factor(*to)), high(pass.limit), low(-pass.limit), zero(0);
    cpu_kit::parallel_ranges(ctx, chunks, together, [&](index first, index last) {
      double sum = 0, not_finite = 0;
      for (index chunk = first; chunk < last; ++chunk)
        cpu_kit::with_chunk(spans, chunk, [&](const update_span<T, G>& s, index begin, index end) {
          constexpr index run = 64 * lanes<C>;  // short float sums, gathered in double
          P bad(0);
          for (index i = begin; i < end; i += run) {
            P squares(0);
            cpu_kit::for_packs<C>(std::min(end - i, run), [&](index k, auto n) {
              const P raw = cpu_kit::load<C>(s.gradient + i + k, n), scaled = raw * factor;
              const P g = select(scaled > high, high, select(scaled < low, low, scaled));
              squares = squares + g * g;
              bad = bad + raw * zero;  // NaN for infinities, too
            });
            sum += static_cast<double>(sum_lanes(squares));
          }
          not_finite += static_cast<double>(sum_lanes(bad));
        });
      partial(0, first / together) = sum;
      partial(1, first / together) = not_finite;
    });
    double sum = 0, not_finite = 0;
    for (index i = 0; i * together < chunks; ++i) {
      sum += partial(0, i);
      not_finite += partial(1, i);
    }
    pass.conclude(*to, sum, not_finite);
  }
};

template <>
struct kernel<op::note_skip, cpu> {
  static void forward(context<cpu>&, const gradient_scalars* scalars, double* skipped, loss_scale_counts* counts) {
    if (scalars->found_inf == 0) return;
    *skipped += 1;
    counts->found_inf = 1;
  }
};

template <>
struct kernel<op::update_loss_scale, cpu> {
  static void forward(context<cpu>&, const op::update_loss_scale& update, float* scale, loss_scale_counts* counts) {
    update(*scale, *counts);
  }
};

namespace cpu_kit::inline GRADUS_BUILD {

/// Rounds a pack to bf16, up or down by 16 random bits below the cut. Element i of the row of all values draws from half i % 8 of
/// the words of group i / 8. NaN stays NaN.
GRADUS_INLINE void store_stochastically(pack<float> x, bf16* to, index n, const random_key& key, index first) {
  std::array<std::uint32_t, 4> words{};
  for (index i = 0; i < n; ++i) {
    const index element = first + i;
    if (i == 0 || element % 8 == 0) words = key.words(element / 8);
    to[i] = round_stochastically(float{x.v[i]}, words, element % 8);
  }
}
GRADUS_INLINE index lanes_in(all_lanes) { return lanes<float>; }
GRADUS_INLINE index lanes_in(first_lanes n) { return n.count; }

/// Writes values, rounded as the step asks for. `first` is the number of the first one in the row of all values.
template <class T, class Which>
GRADUS_INLINE void store_value(pack<compute_type<T>> x, T* to, Which n, const step_inputs& in, index first) {
  if constexpr (std::is_same_v<T, bf16>) {
    if (in.rounds == rounding::stochastic) {
      store_stochastically(x, to, lanes_in(n), in.key, first);
      return;
    }
  }
  store(x, to, n);
}

}  // namespace cpu_kit::inline GRADUS_BUILD

template <>
struct kernel<op::element_step, cpu> {
  template <class Rule, class T, class G, class S, std::size_t N>
  static void forward(context<cpu>& ctx, const std::vector<update_span<T, G>>& spans, const Rule& rule,
                      const rule_states<T, S, N>& states, const step_inputs& in) {
    if (in.skips()) return;
    using C = compute_type<T>;
    using P = pack<C>;
    const gradient_scaling<C> scaling(in);
    constexpr bool optional = requires { rule.states_in_use(); };  // states may be absent
    constexpr bool compensated = detail::is_compensated<Rule, T>;
    cpu_kit::parallel_spans(ctx, spans, [&](const update_span<T, G>& t, index begin, index end) {
      const auto update = rule.template at<C>(in.at(rule, t));
      cpu_kit::for_packs<C>(end - begin, [&](index k, auto n) {
        const index i = begin + k;
        const P g = scaling(cpu_kit::load<C>(t.gradient + i, n));
        P p = cpu_kit::load<C>(t.value + i, n);
        if constexpr (compensated) p = p + cpu_kit::load<C>(states.rest + t.first + i, n);
        std::array<P, N> s;
        for (std::size_t j = 0; j < N; ++j)
          s[j] = optional && states.at[j] == nullptr ? P(0) : cpu_kit::load<C>(states.at[j] + t.first + i, n);
        if constexpr (!GRADUS_GPU_PASS)
          [&]<std::size_t... J>(std::index_sequence<J...>) { update(p, g, s[J]...); }(std::make_index_sequence<N>{});
        for (std::size_t j = 0; j < N; ++j)
          if (!optional || states.at[j] != nullptr) cpu_kit::store(s[j], states.at[j] + t.first + i, n);
        cpu_kit::store_value(p, t.value + i, n, in, t.first + i);
        if constexpr (compensated) cpu_kit::store(p - cpu_kit::load<C>(t.value + i, n), states.rest + t.first + i, n);
      });
    });
  }
};

template <>
struct kernel<op::adamw_8bit_step, cpu> {
  template <class T, class G>
  static void forward(context<cpu>& ctx, const std::vector<block_span<T, G>>& spans, const adamw_options& rule,
                      const step_inputs& in) {
    if (in.skips()) return;
    constexpr index block = adamw_8bit_options::block;
    static_assert(cpu_kit::span_chunk % block == 0);
    const gradient_scaling<float> scaling(in);
    cpu_kit::parallel_spans(ctx, spans, [&](const block_span<T, G>& t, index begin, index end) {
      const auto update = rule.template at<float>(in.at(rule, t));
      for (; begin < end; begin += block) {
        const index n = std::min(block, end - begin);
        float here[2][block], *m = here[0], *v = here[1];
        if (t.codes[0] == nullptr) {
          m = t.states[0] + begin, v = t.states[1] + begin;
        } else {
          decode(dynamic_map_of<true>, t.codes[0] + begin, n, t.states[0][begin / block], m);
          decode(dynamic_map_of<false>, t.codes[1] + begin, n, t.states[1][begin / block], v);
        }
        cpu_kit::for_packs<float>(n, [&](index i, auto which) {
          pack<float> p = cpu_kit::load<float>(t.value + begin + i, which);
          pack<float> m1 = cpu_kit::load<float>(m + i, which), v1 = cpu_kit::load<float>(v + i, which);
          update(p, scaling(cpu_kit::load<float>(t.gradient + begin + i, which)), m1, v1);
          cpu_kit::store(m1, m + i, which);
          cpu_kit::store(v1, v + i, which);
          cpu_kit::store_value(p, t.value + begin + i, which, in, t.first + begin + i);
        });
        if (t.codes[0] == nullptr) continue;
        t.states[0][begin / block] = encode(dynamic_map_of<true>, m, n, t.codes[0] + begin);
        t.states[1][begin / block] = encode(dynamic_map_of<false>, v, n, t.codes[1] + begin);
      }
    });
  }

 private:
  template <bool Signed>
  static void decode(const dynamic_map<Signed>& map, const std::uint8_t* codes, index n, float scale, float* to) {
    for (index i = 0; i < n; ++i) to[i] = map.value[codes[i]] * scale;
  }
  // Returns the scale.
  template <bool Signed>
  static float encode(const dynamic_map<Signed>& map, const float* from, index n, std::uint8_t* codes) {
    float most = 0;
    for (index i = 0; i < n; ++i) most = std::max(most, std::abs(from[i]));
    const float scale = most > 0 ? most : 1.0f;
    for (index i = 0; i < n; ++i) codes[i] = map.nearest(from[i] / scale);
    return most;
  }
};

/// Tensor by tensor. A matrix is cut into parts of rows, a vector into parts of elements, by size alone; sums of parts are added up in order.
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
  static constexpr index most = op::adafactor_step::most_parts;
  struct sums {
    double values, updates;  // squares of
  };
  struct rates {
    float keep, lr, beta1, rest1;
  };

  // What the passes over one tensor share.
  template <class T, class G>
  struct work {
    const factored_span<T, G>& t;
    const step_inputs& in;
    gradient_scaling<float> scaling;
    float beta, eps;

    template <class Which>
    GRADUS_INLINE P gradient(index i, Which n) const {
      return scaling(cpu_kit::load<float>(t.gradient + i, n));
    }
    GRADUS_INLINE P averaged(P so_far, P now) const { return P(beta) * so_far + P(1 - beta) * now; }
    // Takes the step of elements i .. by the update u.
    template <class Which>
    GRADUS_INLINE void take(index i, P u, const rates& r, Which n) const {
      u = u * P(r.lr);
      if (t.update != nullptr) {
        u = P(r.beta1) * cpu_kit::load<float>(t.update + i, n) + P(r.rest1) * u;
        cpu_kit::store(u, t.update + i, n);
      }
      cpu_kit::store_value(cpu_kit::load<float>(t.value + i, n) * P(r.keep) - u, t.value + i, n, in, t.first + i);
    }
  };

  // f(begin, end, part) on parts of n units of `size` elements.
  template <class F>
  static index in_parts(context<cpu>& ctx, index n, index size, const F& f) {
    const index grain = std::max<index>({1, (n + most - 1) / most, (index{1} << 14) / size});
    cpu_kit::parallel_ranges(ctx, n, grain, [&](index begin, index end) { f(begin, end, begin / grain); });
    return (n + grain - 1) / grain;
  }
  // Short float sums, gathered in double.
  template <class F>
  static double sum_of(index n, const F& f) {
    constexpr index run = 64 * lanes<float>;
    double all = 0;
    for (index i = 0; i < n; i += run) {
      P sum(0);
      cpu_kit::for_packs<float>(std::min(n - i, run), [&](index k, auto which) {
        sum = sum + cpu_kit::inside_or(f(i + k, which), 0.0f, which);
      });
      all += static_cast<double>(sum_lanes(sum));
    }
    return all;
  }
  static double added(const double* part, index parts) {
    double all = 0;
    for (index i = 0; i < parts; ++i) all += part[i];
    return all;
  }
  static rates rates_of(const adafactor_options& o, const tensor_step& s, index size, const sums& sum) {
    double lr = s.lr;
    if (o.lr == 0) lr *= std::min(o.warmup ? 1e-6 * s.t : 1e-2, 1 / std::sqrt(s.t));
    const auto n = static_cast<double>(size);
    if (o.scale_parameter) lr *= std::max(o.eps2, std::sqrt(sum.values / n));
    const double held = std::max(1.0, std::sqrt(sum.updates / n) / o.clip_threshold);
    return {static_cast<float>(1 - s.weight_decay * lr), static_cast<float>(lr / held), static_cast<float>(o.beta1),
            static_cast<float>(1 - o.beta1)};
  }

  template <class T, class G>
  static void tensor_step_of(context<cpu>& ctx, const adafactor_options& o, const factored_span<T, G>& t,
                             const step_inputs& in, double* scratch) {
    struct {
      double lr, weight_decay;
    } const rule{o.lr == 0 ? 1.0 : o.lr, o.weight_decay};
    const tensor_step s = in.at(rule, t);
    const work<T, G> w{t, in, gradient_scaling<float>(in), static_cast<float>(1 - std::pow(s.t, o.decay_rate)),
                       static_cast<float>(o.eps1)};
    if (t.rows == 0) step_of_vector(ctx, o, w, s, scratch);
    else step_of_matrices(ctx, o, w, s, scratch);
  }

  template <class T, class G>
  static void step_of_vector(context<cpu>& ctx, const adafactor_options& o, const work<T, G>& w, const tensor_step& s,
                             double* scratch) {
    const auto& t = w.t;
    const index parts = in_parts(ctx, t.size, 1, [&](index begin, index end, index part) {
      scratch[part] = sum_of(end - begin, [&](index i, auto n) {
        const P p = cpu_kit::load<float>(t.value + begin + i, n);
        return p * p;
      });
      scratch[most + part] = sum_of(end - begin, [&](index k, auto n) {
        const index i = begin + k;
        const P g = w.gradient(i, n);
        const P v = w.averaged(cpu_kit::load<float>(t.row_means + i, n), g * g + P(w.eps));
        cpu_kit::store(v, t.row_means + i, n);
        return g * g / v;
      });
    });
    const rates r = rates_of(o, s, t.size, {added(scratch, parts), added(scratch + most, parts)});
    in_parts(ctx, t.size, 1, [&](index begin, index end, index) {
      cpu_kit::for_packs<float>(end - begin, [&](index k, auto n) {
        const index i = begin + k;
        w.take(i, w.gradient(i, n) / sqrt(cpu_kit::load<float>(t.row_means + i, n)), r, n);
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
    sums sum{0, 0};
    for (index matrix = 0; matrix < t.matrices; ++matrix) {
      const index first = matrix * t.rows * t.columns;
      float* const means = t.row_means + matrix * t.rows;
      const index parts = in_parts(ctx, t.rows, t.columns, [&](index begin, index end, index part) {
        float* const columns = column_sums + part * t.columns;
        std::fill_n(columns, t.columns, 0.0f);
        sum_values[part] = 0;
        for (index row = begin; row < end; ++row) {
          const index at = first + row * t.columns;
          const double squares = sum_of(t.columns, [&](index j, auto n) {
            const P g = w.gradient(at + j, n), u = g * g + P(w.eps);
            cpu_kit::store(cpu_kit::load<float>(columns + j, n) + u, columns + j, n);
            return u;
          });
          means[row] =
              w.beta * means[row] + (1 - w.beta) * static_cast<float>(squares / static_cast<double>(t.columns));
          sum_values[part] += sum_of(t.columns, [&](index j, auto n) {
            const P p = cpu_kit::load<float>(t.value + at + j, n);
            return p * p;
          });
        }
      });
      float* const averages = t.column_means + matrix * t.columns;
      for (index j = 0; j < t.columns; ++j) {
        double all = 0;
        for (index part = 0; part < parts; ++part) all += static_cast<double>(column_sums[part * t.columns + j]);
        averages[j] = w.beta * averages[j] + (1 - w.beta) * static_cast<float>(all / static_cast<double>(t.rows));
      }
      sum.values += added(sum_values, parts);
      // The updates of this matrix, for their root mean square.
      const double mean = factors_of_columns(t, matrix, column_factors);
      in_parts(ctx, t.rows, t.columns, [&](index begin, index end, index part) {
        sum_updates[part] = 0;
        for (index row = begin; row < end; ++row)
          sum_updates[part] += sum_of(t.columns, [&](index j, auto n) {
            const P u = update(w, first + row * t.columns, j, row_factor(means[row], mean), column_factors, n);
            return u * u;
          });
      });
      sum.updates += added(sum_updates, parts);
    }
    const rates r = rates_of(o, s, t.size, sum);
    for (index matrix = 0; matrix < t.matrices; ++matrix) {
      const index first = matrix * t.rows * t.columns;
      const double mean = factors_of_columns(t, matrix, column_factors);
      in_parts(ctx, t.rows, t.columns, [&](index begin, index end, index) {
        for (index row = begin; row < end; ++row) {
          const index at = first + row * t.columns;
          const float factor = row_factor(t.row_means[matrix * t.rows + row], mean);
          cpu_kit::for_packs<float>(
              t.columns, [&](index j, auto n) { w.take(at + j, update(w, at, j, factor, column_factors, n), r, n); });
        }
      });
    }
  }
  // 1 / sqrt(C) of each column; returns the mean of R.
  template <class T, class G>
  static double factors_of_columns(const factored_span<T, G>& t, index matrix, float* factors) {
    const float* averages = t.column_means + matrix * t.columns;
    for (index j = 0; j < t.columns; ++j) factors[j] = 1 / std::sqrt(averages[j]);
    double mean = 0;
    for (index row = 0; row < t.rows; ++row) mean += static_cast<double>(t.row_means[matrix * t.rows + row]);
    return mean / static_cast<double>(t.rows);
  }
  static float row_factor(float average, double mean) {
    return static_cast<float>(1 / std::sqrt(static_cast<double>(average) / mean));
  }
  template <class T, class G, class Which>
  GRADUS_INLINE static P update(const work<T, G>& w, index row, index j, float row_factor, const float* column_factors,
                                Which n) {
    return w.gradient(row + j, n) * P(row_factor) * cpu_kit::load<float>(column_factors + j, n);
  }
};

template <>
struct kernel<op::muon_step, cpu> {
  template <class T, class G>
  static void forward(context<cpu>& ctx, const op::muon_step& step, const std::vector<matrix_span<T, G>>& spans,
                      const step_inputs& in, float* scratch) {
    if (in.skips()) return;
    const muon_options& o = step.options;
    for (const matrix_span<T, G>& t : spans) {
      const tensor_step s = in.at(o, t);
      float* const x = scratch;
      scale(ctx, x, t.size, 1 / (std::sqrt(direction(ctx, o, t, in, x, scratch + t.size)) + 1e-7));
      const float* const orthogonal = iterated(ctx, t.rows, t.columns, x);
      const double longer = std::max(1.0, static_cast<double>(t.columns) / static_cast<double>(t.rows));
      const P by(s.lr * std::sqrt(longer)), keep(1 - s.lr * s.weight_decay);
      cpu_kit::parallel_elements(ctx, t.size, cpu_kit::span_chunk, [&](index begin, index end) {
        cpu_kit::for_packs<float>(end - begin, [&](index k, auto n) {
          const index i = begin + k;
          const P p = cpu_kit::load<float>(t.value + i, n) * keep - by * cpu_kit::load<float>(orthogonal + i, n);
          cpu_kit::store_value(p, t.value + i, n, in, t.first + i);
        });
      });
    }
  }

 private:
  using P = pack<float>;

  // Brings the momentum up to date and leaves the direction in `to`. Returns the sum of its squares.
  template <class T, class G>
  static double direction(context<cpu>& ctx, const muon_options& o, const matrix_span<T, G>& t, const step_inputs& in,
                          float* to, float* partial) {
    const gradient_scaling<float> scaling(in);
    const P rest(1 - o.momentum), ahead(o.nesterov ? o.momentum : 1.0);
    constexpr index grain = index{1} << 14;
    cpu_kit::parallel_ranges(ctx, t.size, grain, [&](index begin, index end) {
      P squares(0);
      cpu_kit::for_packs<float>(end - begin, [&](index k, auto n) {
        const index i = begin + k;
        const P g = scaling(cpu_kit::load<float>(t.gradient + i, n)), before = cpu_kit::load<float>(t.momentum + i, n);
        const P m = before + rest * (g - before), u = g + ahead * (m - g);
        cpu_kit::store(m, t.momentum + i, n);
        cpu_kit::store(u, to + i, n);
        squares = squares + cpu_kit::inside_or(u * u, 0.0f, n);
      });
      partial[begin / grain] = sum_lanes(squares);
    });
    double sum = 0;
    for (index i = 0; i * grain < t.size; ++i) sum += static_cast<double>(partial[i]);
    return sum;
  }
  static void scale(context<cpu>& ctx, float* x, index n, double factor) {
    const P by(factor);
    cpu_kit::parallel_elements(ctx, n, cpu_kit::span_chunk, [&](index begin, index end) {
      cpu_kit::for_packs<float>(end - begin, [&](index i, auto which) {
        cpu_kit::store(by * cpu_kit::load<float>(x + begin + i, which), x + begin + i, which);
      });
    });
  }
  // Newton and Schulz's iteration x = a x + (b A + c A A) x with A = x x^T, or its transpose: A is the smaller one. Returns where the
  // result is.
  static const float* iterated(context<cpu>& ctx, index rows, index columns, float* x) {
    const bool wide = rows <= columns;
    const index side = std::min(rows, columns), n = rows * columns;
    float *y = x + n, *const a = y + n, *const b = a + side * side;
    for (int i = 0; i < 5; ++i) {
      cpu_kit::gemm<float>(ctx, !wide, wide, side, side, std::max(rows, columns), x, columns, x, columns, false, a,
                           side);
      cpu_kit::gemm<float>(ctx, false, false, side, side, side, a, side, a, side, false, b, side);
      cpu_kit::parallel_elements(
          ctx, side, std::max<index>(1, cpu_kit::span_chunk / side), [&](index begin, index end) {
            for (index r = begin; r < end; ++r) {
              cpu_kit::for_packs<float>(side, [&](index j, auto which) {
                float* at = b + r * side + j;
                const P first = cpu_kit::load<float>(a + r * side + j, which);
                cpu_kit::store(P(-4.7750f) * first + P(2.0315f) * cpu_kit::load<float>(at, which), at, which);
              });
              b[r * side + r] += 3.4445f;
            }
          });
      if (wide) cpu_kit::gemm<float>(ctx, false, false, rows, columns, rows, b, rows, x, columns, false, y, columns);
      else cpu_kit::gemm<float>(ctx, false, false, rows, columns, columns, x, columns, b, columns, false, y, columns);
      std::swap(x, y);
    }
    return x;
  }
};

template <>
struct kernel<op::average_weights, cpu> {
  template <class T, class G, class S>
  static void forward(context<cpu>& ctx, const op::average_weights& how, const std::vector<update_span<T, G>>& spans,
                      S* averages) {
    const pack<S> keep(how.decay), rest(1 - how.decay);
    cpu_kit::parallel_spans(ctx, spans, [&](const update_span<T, G>& t, index begin, index end) {
      cpu_kit::for_packs<S>(end - begin, [&](index k, auto n) {
        S* at = averages + t.first + begin + k;
        const pack<S> value = cpu_kit::load<S>(t.value + begin + k, n);
        cpu_kit::store(how.decay == 0 ? value : keep * cpu_kit::load<S>(at, n) + rest * value, at, n);
      });
    });
  }
};

template <>
struct kernel<op::swap_averages, cpu> {
  template <class T, class G, class S>
  static void forward(context<cpu>& ctx, const std::vector<update_span<T, G>>& spans, S* averages, T* back) {
    cpu_kit::parallel_spans(ctx, spans, [&](const update_span<T, G>& t, index begin, index end) {
      S* average = averages + t.first;
      for (index i = begin; i < end; ++i) {
        const T value = t.value[i];
        t.value[i] = convert_element<T>(average[i]);
        if (back == nullptr) average[i] = convert_element<S>(value);
        else back[t.first + i] = value;
      }
    });
  }
};

template <>
struct kernel<op::restore_values, cpu> {
  template <class T, class G>
  static void forward(context<cpu>& ctx, const std::vector<update_span<T, G>>& spans, const T* back) {
    cpu_kit::parallel_spans(ctx, spans, [&](const update_span<T, G>& t, index begin, index end) {
      std::copy(back + t.first + begin, back + t.first + end, t.value + begin);
    });
  }
};

}  // namespace gradus
